"""The shared parts of commands on records: pages, changes that are waited for, histories, confirmations."""

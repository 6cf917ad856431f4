"""What commands on records of every kind share: pages, changes that are waited for, histories, confirmations."""

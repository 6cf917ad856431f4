"""Leases and session locks, and the root object that everything borrows its connections from."""

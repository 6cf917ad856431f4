"""Leases in a DynamoDB table. DynamoDB has no clock, so a process watches the items of held leases: see `watch`."""

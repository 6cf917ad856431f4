"""Leases in a DynamoDB table. DynamoDB has no clock, so a process that wants a lease watches its item: see `leases`."""

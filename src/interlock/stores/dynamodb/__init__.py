"""Leases in a table of DynamoDB, which has no clock: whoever wants a lease watches the record, see `leases`."""

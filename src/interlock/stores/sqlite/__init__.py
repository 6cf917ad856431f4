"""Leases in a SQLite file that several processes of one machine share."""

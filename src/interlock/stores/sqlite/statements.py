"""The statements of leases.sql."""

from interlock.stores.statements import statements

SQL = statements("interlock.stores.sqlite", "leases.sql")

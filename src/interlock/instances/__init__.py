"""PostgreSQL instances: created, watched and deleted."""

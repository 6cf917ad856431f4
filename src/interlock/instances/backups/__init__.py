"""Backups of instances: what PostgreSQL's own pg_dump writes, kept in a directory, and restored by pg_restore."""

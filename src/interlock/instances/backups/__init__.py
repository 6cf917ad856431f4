"""Backups of instances: written by PostgreSQL's own pg_dump, kept in a directory, and restored by pg_restore."""

"""Session locks of PostgreSQL: locks that last as long as a database session."""

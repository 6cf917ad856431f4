"""Leases and session locks, and the root object, which lends them its connections."""

"""Primitives made of leases: semaphores, elections, read/write locks, once, periodic work, membership."""

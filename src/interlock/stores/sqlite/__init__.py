"""SQLite: leases of several processes on one machine, in a file that they share."""

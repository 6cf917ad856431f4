"""The databases that keep leases, one package for each. Only these packages import a database driver."""

"""The databases that keep leases, one package each: the only importers of a driver."""

"""The databases that Interlock stands on, one package each: the only importers of a driver."""

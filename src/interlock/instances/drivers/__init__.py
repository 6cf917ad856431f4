"""The drivers of instances: the port, and a package for each system. See `port.Driver`."""

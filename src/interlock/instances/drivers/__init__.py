"""What instances are made of: a port, and a room for each real system. See `port.Driver`."""

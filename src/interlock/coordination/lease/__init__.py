"""A lease and its grant: names, times, blocks, several leases at once, and functions and commands that run under a
lease."""

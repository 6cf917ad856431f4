"""A lease and its grant: names, times, blocks, several at once, and functions and commands that run under one."""

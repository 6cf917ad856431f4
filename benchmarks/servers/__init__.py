"""The servers of a run: each on a free port of the loopback address, with its data in a directory of the run."""

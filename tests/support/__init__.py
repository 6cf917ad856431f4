"""Shared parts of the tests: real servers, real processes, and ways to wait for them."""

"""The databases that keep leases: chosen by a URL, and how a root object works on each."""

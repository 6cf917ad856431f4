"""The databases that keep leases: selected by a URL, with the features that each has for a root object."""

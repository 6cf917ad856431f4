"""What nobody asks for and has to be done all the same: watchers that are missing, drift, old history.

Each is a periodic singleton: of all replicas one does it at a time, and if that one dies another goes on.
"""

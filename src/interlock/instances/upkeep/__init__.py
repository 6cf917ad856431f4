"""Periodic maintenance of instances: missing watchers, drift, and old history.

Each job is a periodic singleton: one replica at a time runs it, and if that replica dies, another one takes over.
"""

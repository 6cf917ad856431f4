"""Interlock for tools that people already have, to migrate or to watch with: thin adapters, nothing to decide."""

"""The migration gate for tools that people already migrate with: thin adapters, nothing of their own to decide."""

"""Thin adapters that connect Interlock to other tools: web frameworks, migration tools, schedulers, metrics, tests."""

"""Records with states, on each of which one orchestration at a time works: the base of every domain.

A domain declares a `Record` with its `Table`, the effects of its orchestrations on `Effects`, and what may be asked for
on `Requests`. See docs/architecture.md, "A new domain".
"""

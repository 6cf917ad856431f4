"""Records with states, each worked on by one orchestration at a time: the base of every domain.

A domain declares a `Record` and its `RecordTable`, its steps as `Effects`, and its requests as `Requests`.
See docs/how-to/new-domain.md.
"""

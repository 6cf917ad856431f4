"""Orchestrations: work in steps that survives the death of a replica, because any other replica finishes it.

`declarations` declares activities and orchestrations, `run` is the interface of an orchestration, `attempt` the
interface of an activity, and `replica` the object that a process opens to run them. Only `engine` imports the engine.

Packages that build on this one may read and write its tables, and the engine's tables, only in two ways: in Python by
`requests` and `status`, in a transaction of the caller's; in SQL by the versioned functions of `0006_orchestrations`.
The statements of these packages may join `read_orchestration_v1` with tables of their own.
"""

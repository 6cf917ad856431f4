"""Orchestrations: work in steps that is finished by whichever replica is alive.

`declared` is where activities and orchestrations are declared, `run` what an orchestration does, `attempt` what an
activity gets, `replica` what a process opens to take part. Only `engine` imports the engine.

Packages that build on this one reach its tables, and the engine's, in no other way than these: in Python `recording`
and `outcome`, in a transaction of the caller's; in SQL the versioned functions of `0006_orchestrations`, of which
`read_orchestration_v1` is made to be joined with tables of theirs.
"""

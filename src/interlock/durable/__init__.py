"""Orchestrations: work in steps that is finished by whichever replica is alive.

`declared` is where activities and orchestrations are declared, `run` what an orchestration does, `attempt` what an
activity gets, `replica` what a process opens to take part. Only `engine` imports the engine.
"""

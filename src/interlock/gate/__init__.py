"""The migration gate: of all replicas that start, one migrates the schema."""

from interlock.gate.gate import AsyncGate, GateOptions
from interlock.gate.passage import AsyncPassage
from interlock.gate.schema_version import Verdict
from interlock.gate.sync import Gate, Passage
from interlock.gate.times import Timing

__all__ = ["AsyncGate", "AsyncPassage", "Gate", "GateOptions", "Passage", "Timing", "Verdict"]

"""Commands that cannot outlive a trust: what `interlock gate run`, `interlock lock run` and the like start."""

from interlock.commands.run import run_under, status_of
from interlock.commands.signals import SignalForwarder
from interlock.commands.supervised_command import CommandResult, SupervisedCommand
from interlock.commands.supervisor_process import SupervisorProcess

__all__ = ["CommandResult", "SignalForwarder", "SupervisedCommand", "SupervisorProcess", "run_under", "status_of"]

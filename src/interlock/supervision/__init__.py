"""Commands, such as that of `interlock lock run`, that end before the trust in their lease or gate is over."""

from interlock.supervision.run import run_under, status_of
from interlock.supervision.signals import SignalForwarder
from interlock.supervision.supervised_command import CommandResult, SupervisedCommand
from interlock.supervision.supervisor_process import SupervisorProcess

__all__ = ["CommandResult", "SignalForwarder", "SupervisedCommand", "SupervisorProcess", "run_under", "status_of"]

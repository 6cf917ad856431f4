"""Commands that end before the trust in their lease or gate: those of `interlock gate run`, `interlock lock run`, …"""

from interlock.commands.run import run_under, status_of
from interlock.commands.signals import SignalForwarder
from interlock.commands.supervised_command import CommandResult, SupervisedCommand
from interlock.commands.supervisor_process import SupervisorProcess

__all__ = ["CommandResult", "SignalForwarder", "SupervisedCommand", "SupervisorProcess", "run_under", "status_of"]

"""Commands that cannot outlive a trust: what `interlock gate run`, `interlock lock run` and the like start."""

from interlock.commands.run import run_under, status_of
from interlock.commands.signals import Forwarding
from interlock.commands.standby import Standby
from interlock.commands.supervised import CommandResult, SupervisedCommand

__all__ = ["CommandResult", "Forwarding", "Standby", "SupervisedCommand", "run_under", "status_of"]

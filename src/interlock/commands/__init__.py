"""Commands that cannot outlive a trust: what `interlock gate run` and `interlock lock run` start."""

from interlock.commands.forwarding import Forwarding
from interlock.commands.standby import Standby
from interlock.commands.supervised import CommandResult, SupervisedCommand

__all__ = ["CommandResult", "Forwarding", "Standby", "SupervisedCommand"]

"""The reasons why a lease was not acquired, and why one was lost, as events, metrics and log lines name them."""

from typing import Literal

Reason = Literal["busy", "timeout", "cancelled", "error"]
"""The reasons why an acquire ended without a lease. ``busy``: the lease was taken, and the caller did not wait.
``timeout``: the timeout passed. ``cancelled``: the caller was cancelled. ``error``: an error came."""

Loss = Literal["expired", "refused", "broken", "clock", "failover", "closed"]
"""The reasons why a held lease was lost:

=========  ================================================================================================
expired    no renewal was confirmed in time: the database did not answer, or this process was stopped
refused    the database says that the grant is not the current one
broken     an operator broke the lease
clock      the database's clock stepped
failover   another server answers now, and may not know the grant
closed     the root object was closed while the lease was held
=========  ================================================================================================
"""

"""The reasons why a lease was not acquired, and why one was lost, as events, metrics and log lines name them."""

from typing import Literal

Reason = Literal["busy", "timeout", "cancelled", "error"]
"""Why an acquire ended without a lease: it was taken and the caller did not wait; the timeout passed; the caller was
cancelled; an error came."""

Loss = Literal["expired", "refused", "broken", "clock", "failover", "closed"]
"""Why a held lease was lost:

=========  ================================================================================================
expired    no renewal was confirmed in time: the database did not answer, or this process was stopped
refused    the database says that the grant is not the current one
broken     an operator broke it
clock      the database's clock stepped
failover   another server answers now, and may not know the grant
closed     the root object was closed while it was held
=========  ================================================================================================
"""

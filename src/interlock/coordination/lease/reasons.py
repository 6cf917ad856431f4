"""Why a lease was not acquired, and why one was lost: the words for it in events, figures and log lines."""

from typing import Literal

Reason = Literal["busy", "timeout", "cancelled", "error"]
"""Why an acquire ended without a lease: taken, and nobody wanted to wait; waited long enough; given up; it broke."""

Loss = Literal["expired", "refused", "broken", "clock", "failover", "closed"]
"""Why a held lease was lost.

=========  ================================================================================================
expired    no renewal was confirmed in time: the database did not answer, or this process stood still
refused    the database says that the grant is not the current one
broken     an operator broke it
clock      the database's clock stepped
failover   another server answers now, and may not know the grant
closed     the root object was closed while it was held
=========  ================================================================================================
"""

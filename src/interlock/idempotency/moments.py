"""Recorded times: those that were noted when something happened, and are the same when it is done again."""

from datetime import datetime

from interlock.errors import ConfigurationError


def checked_moment(at: datetime) -> datetime:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise ConfigurationError(
            f"{at!r} is no recorded time: give the datetime, with its time zone, that was noted when it happened first."
        )
    return at

"""Options and root object of the commands that run another command under a lease."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from interlock.cli.duration import DURATION, METAVAR
from interlock.cli.settings import load_settings, run, url_of_database
from interlock.errors import ConfigurationError

if TYPE_CHECKING:
    from interlock.coordination.root import AsyncInterlock

F = TypeVar("F", bound=Callable[..., Any])

_LONGEST_HOLD = 86400.0


def ttl_option(default: float = 30.0) -> Callable[[F], F]:
    return click.option(
        "--ttl",
        type=DURATION,
        default=default,
        metavar=METAVAR,
        help=f"The time that others wait if this machine dies, for example 30s. [default: {default:g}s]",
    )


def waiting_options(command: F) -> F:
    """The command gets `timeout` and `no_wait`, and passes them to `acquire_timeout`."""
    command = click.option("--no-wait", is_flag=True, help="Exit at once if the lease is not free.")(command)
    return click.option(
        "--timeout", type=DURATION, metavar=METAVAR, help="Wait for the lease at most this long. [default: no limit]"
    )(command)


def at_least_option(command: F) -> F:
    """The command gets `at_least`, and makes its lease with the settings from `minimum_hold`."""
    return click.option(
        "--at-least",
        type=DURATION,
        default=0.0,
        metavar=METAVAR,
        help="Keep the lease this long from its acquisition, even if COMMAND has ended.",
    )(command)


def metadata_option(command: F) -> F:
    return click.option(
        "--metadata",
        multiple=True,
        metavar="KEY=VALUE",
        help="A fact that `interlock why` shows with the holder. Repeatable.",
    )(command)


def acquire_timeout(timeout: float | None, no_wait: bool) -> float | None:
    """Returns the seconds to wait for the lease; None means: no limit."""
    if no_wait and timeout is not None:
        raise click.UsageError("Use --timeout or --no-wait, not both.")
    from interlock.coordination.lease.times import checked_timeout

    return 0.0 if no_wait else checked_timeout(timeout)


def minimum_hold(url: str, ttl: float, at_least: float, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """Returns the settings of a lease that stays held for `at_least` seconds, even if its holder dies.

    The ttl covers that time. The holder renews as often as with the shorter ttl, so it notices a broken lease as soon.
    """
    if at_least:
        _require_shared_expiry(url)
    if at_least <= ttl:
        return {"ttl": ttl, "metadata": _with_minimum(metadata, at_least)}
    from interlock.coordination.lease.times import LeaseTiming

    LeaseTiming.of(ttl)  # raises, if it is too short on its own
    if at_least > _LONGEST_HOLD:
        raise ConfigurationError(f"--at-least of {at_least:g} s cannot work: use {_LONGEST_HOLD:g} s (a day) at most.")
    return {"ttl": at_least, "renew_every": ttl / 4, "metadata": _with_minimum(metadata, at_least)}


def _require_shared_expiry(url: str) -> None:
    """Refuse a DynamoDB URL without `max_clock_skew`: there, only a process that watches a lease for its whole ttl sees
    the lease expire, and a job of cron does not watch that long."""
    if url.partition(":")[0].lower() == "dynamodb":
        from interlock.stores.dynamodb.address import parsed

        if parsed(url).max_clock_skew is None:
            raise ConfigurationError(
                "--at-least needs a bound on the difference of the machines' clocks, because DynamoDB has no clock: "
                "add max_clock_skew=SECONDS to the URL, as in dynamodb://table?max_clock_skew=5."
            )


def _with_minimum(metadata: Mapping[str, str] | None, at_least: float) -> Mapping[str, str] | None:
    """Add `at_least` to the metadata, which `interlock why` shows: the holder's process may have ended long ago."""
    return {"at_least": f"{at_least:g}s", **(metadata or {})} if at_least else metadata


def parse_metadata(metadata: tuple[str, ...]) -> Mapping[str, str] | None:
    return dict(map(_pair, metadata)) or None


def open_root(flags: dict[str, Any]) -> "tuple[AsyncInterlock, str]":
    """Returns a root object on the command's database, which the caller has to close, and the database's URL."""
    from interlock.coordination.root import AsyncInterlock

    settings = load_settings(**flags)
    url = url_of_database(settings)
    return AsyncInterlock(url, schema=settings.schema), url


def refuse_nesting(locks: "AsyncInterlock", url: str, name: str) -> None:
    """Raise an error if this process already runs under that lease: it would wait for itself without end."""
    from interlock.coordination.lease.command import NAME

    if os.environ.get(NAME) == name:
        from interlock.coordination.lease.nested import require_not_within

        run(require_not_within(url, locks.schema, name, os.environ))


def _pair(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{given!r} has no key or no =: write KEY=VALUE.", param_hint="--metadata")
    return key, value

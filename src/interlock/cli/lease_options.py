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
        help=f"How long others wait if this machine dies, as in 30s or 5m. [default: {default:g}s]",
    )


def waiting_options(command: F) -> F:
    """The command gets `timeout` and `no_wait`, and passes them to `acquire_timeout`."""
    command = click.option("--no-wait", is_flag=True, help="Exit at once if the lease is not free.")(command)
    return click.option(
        "--timeout", type=DURATION, metavar=METAVAR, help="Wait for the lease at most this long. [default: no limit]"
    )(command)


def at_least_option(command: F) -> F:
    """The command gets `at_least`, and makes its lease by `minimum_hold`."""
    return click.option(
        "--at-least",
        type=DURATION,
        default=0.0,
        metavar=METAVAR,
        help="Keep the lease for this time after it was acquired, even if COMMAND has ended.",
    )(command)


def metadata_option(command: F) -> F:
    return click.option(
        "--metadata", multiple=True, metavar="KEY=VALUE", help="Shown with the holder, by `interlock why`. Repeatable."
    )(command)


def acquire_timeout(timeout: float | None, no_wait: bool) -> float | None:
    """Seconds to wait for the lease; None: without limit."""
    if no_wait and timeout is not None:
        raise click.UsageError("Use --timeout or --no-wait, not both.")
    from interlock.coordination.lease.times import checked_timeout

    return 0.0 if no_wait else checked_timeout(timeout)


def minimum_hold(url: str, ttl: float, at_least: float, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """The settings of a lease that is held for `at_least` seconds, whatever happens to its holder.

    The ttl covers that time. Renewals come as often as with the shorter ttl, so a broken lease is noticed as soon.
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
    """On DynamoDB only a process that watches a lease for its whole ttl sees it expire, and a job of cron does not."""
    if url.partition(":")[0].lower() == "dynamodb":
        from interlock.stores.dynamodb.address import parsed

        if parsed(url).max_clock_skew is None:
            raise ConfigurationError(
                "--at-least needs a bound on the difference of the machines' clocks, because DynamoDB has no clock: "
                "add max_clock_skew=SECONDS to the URL, as in dynamodb://table?max_clock_skew=5."
            )


def _with_minimum(metadata: Mapping[str, str] | None, at_least: float) -> Mapping[str, str] | None:
    """`interlock why` shows the metadata: the holder's process may have ended long ago."""
    return {"at_least": f"{at_least:g}s", **(metadata or {})} if at_least else metadata


def parse_metadata(metadata: tuple[str, ...]) -> Mapping[str, str] | None:
    return dict(map(_pair, metadata)) or None


def open_root(flags: dict[str, Any]) -> "tuple[AsyncInterlock, str]":
    """A root object on the command's database, and the database's URL. The caller closes the root object."""
    from interlock.coordination.root import AsyncInterlock

    settings = load_settings(**flags)
    url = url_of_database(settings)
    return AsyncInterlock(url, schema=settings.schema), url


def refuse_nesting(locks: "AsyncInterlock", url: str, name: str) -> None:
    """Raise an error if this command runs under that lease already: it would wait for itself."""
    from interlock.coordination.lease.command import NAME

    if os.environ.get(NAME) == name:
        from interlock.coordination.lease.nested import require_not_within

        run(require_not_within(url, locks.schema, name, os.environ))


def _pair(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{given!r} is not KEY=VALUE.", param_hint="--metadata")
    return key, value

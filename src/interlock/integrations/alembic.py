"""Alembic behind the migration gate: one line of ``env.py``.

::

    from interlock.integrations.alembic import gated

    if context.is_offline_mode():
        run_migrations_offline()
    else:
        gated(run_migrations_online)      # instead of run_migrations_online()

What passes how (`Alembic's command`: what the gate does):

* ``upgrade head``, ``upgrade heads``: goes on without the lock if the database is there already. Otherwise one replica
  migrates, and the others wait and then find that there is nothing left to do. Your function is not called by them.
* ``upgrade REVISION``, ``upgrade +1``, ``downgrade``, ``stamp``: takes the gate, and always runs. These are what a
  person asks for, and mean what they say only once nobody else is migrating.
* ``current``, ``history``, ``check``, ``revision --autogenerate`` and whatever else has no destination, and everything
  with ``--sql``: runs as if there were no gate.

The command line can override what env.py says: ``alembic -x gate_policy=fail -x gate_timeout=60 -x gate_newer=start
upgrade head``. Interlock's errors end it with one line and their own exit status (75: the gate is taken). Programs that
call ``alembic.command`` get the errors themselves.

Not covered: an env.py that migrates several version tables (say ``check=None``: then the gate is always taken), and a
connection that was opened before the gate and handed in through ``config.attributes``.
"""

import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack, cast

from alembic import context
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, event, make_url
from sqlalchemy.exc import ArgumentError

from interlock.errors import ConfigurationError, InterlockError

# The rest of Interlock is imported when it is called. The standard env.py calls logging's fileConfig, which silences
# every logger that exists by then: the gate would wait without a word.
if TYPE_CHECKING:
    from interlock.gate import GateOptions, Verdict
    from interlock.integrations.gated_migration import Newer


def gated(
    run: Callable[[], object],
    *,
    app: str | None = None,
    version_table: str = "alembic_version",
    version_table_schema: str | None = None,
    newer: "Newer" = "refuse",
    **options: Unpack["GateOptions"],
) -> None:
    """Call `run`, env.py's function that connects and migrates, inside the gate; not at all if nothing is to be done.

    The database is `url`, else INTERLOCK_DATABASE_URL, else Alembic's ``sqlalchemy.url``; a pooler has to be
    circumvented. The gate is named for the version table, unless `app` names it; both have to be told about a version
    table that is not where Alembic puts it by itself. `newer` says what to do about a revision that this release does
    not know; see `interlock.integrations.gated_migration.Newer`. The rest is a gate's own options.
    """
    if not _has_destination():
        run()
        return
    with _failing_in_one_line():
        from interlock.gate import Gate
        from interlock.integrations.gated_migration import check_newer, migrate, settings_and_timing

        newer = _flags(options).get("gate_newer", newer)
        check_newer(newer)
        settings, timing = settings_and_timing()
        options["url"] = url = _plain(options.get("url") or settings.database_url or _configured_url())
        options.setdefault("timing", timing)
        options.setdefault("own_schema", settings.schema)
        options.setdefault("migration_role", _configured_role())
        options.setdefault("target_schema", version_table_schema)
        options.setdefault("on_wait", lambda sentence: sys.stderr.write(f"{sentence}\n"))
        if _goes_to_head():
            options.setdefault("check", _check(url, version_table, version_table_schema, newer))
        migrate(Gate(app or version_table, **options), run, _watch)


def _has_destination() -> bool:
    """Whether the command moves the database: exactly those that do have a destination."""
    if context.is_offline_mode():
        return False
    try:
        context.get_revision_argument()
    except KeyError:
        return False
    except CommandError:  # a destination that does not resolve: Alembic says so itself, when it runs
        return True
    return True


def _goes_to_head() -> bool:
    """Whether a database at the head is where the command wants it: then, whatever the command, nothing is to do."""
    try:
        destination = context.get_revision_argument()
        heads = context.get_head_revisions()
    except CommandError:
        return False
    stamping = hasattr(context.config.cmd_opts, "purge")  # `stamp --purge` is there to repair what a check trips over
    return not stamping and set(_tuple(destination)) == set(_tuple(heads))


def _tuple(revisions: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (revisions,) if isinstance(revisions, str) else revisions or ()


def _flags(options: "GateOptions") -> dict[str, Any]:
    """Alembic's -x arguments; those for the gate are put into its options."""
    flags = context.get_x_argument(as_dictionary=True)
    if "gate_policy" in flags:
        options["policy"] = cast(Any, flags["gate_policy"])  # the gate refuses what is none
    if "gate_timeout" in flags:
        try:
            options["timeout"] = float(flags["gate_timeout"])
        except ValueError:
            raise ConfigurationError(f"gate_timeout is {flags['gate_timeout']!r}: use a number of seconds.") from None
    return dict(flags)


def _check(url: str, table: str, schema: str | None, newer: "Newer") -> "Callable[[], Any]":
    script = context.script

    async def check() -> "Verdict":
        return judge(await _revisions(url, table, schema), script, newer)

    return check


def judge(applied: Collection[str], script: ScriptDirectory, newer: "Newer") -> "Verdict":
    """Where a database at the revisions `applied` stands, to a release with these scripts."""
    from interlock.gate import Verdict
    from interlock.integrations.gated_migration import newer_verdict

    unknown = sorted(set(applied) - {known.revision for known in script.walk_revisions()})
    if unknown:
        found = f"revision {', '.join(unknown)}"
        verdict = newer_verdict(found, newer, "newer='start' in env.py, or `alembic -x gate_newer=start`")
        logging.getLogger("alembic.interlock").warning("Starting with a newer schema: the database has %s.", found)
        return verdict
    pending = script.iterate_revisions("heads", tuple(applied), implicit_base=True)
    return Verdict.CURRENT if next(pending, None) is None else Verdict.BEHIND


async def _revisions(url: str, table: str, schema: str | None) -> list[str]:
    """What the version table says, read on a session that is gone before anybody waits."""
    from interlock.stores.postgres import connect, quote_identifier

    name = ".".join(quote_identifier(part) for part in (schema, table) if part)
    async with await connect(url, application_name="interlock alembic") as session:
        if await session.fetchval("SELECT to_regclass($1)", name) is None:
            return []
        return [row["version_num"] for row in await session.fetch(f"SELECT version_num FROM {name}")]  # noqa: S608


@contextmanager
def _watch(before_statement: Callable[[Any], None]) -> Iterator[None]:
    """For every engine, because only env.py knows its own; for this thread, because the others do not migrate."""
    thread = threading.get_ident()

    def before(connection: Connection, *_: object) -> None:
        if threading.get_ident() == thread:
            before_statement(connection.connection.driver_connection)

    for moment in ("before_cursor_execute", "commit"):
        event.listen(Engine, moment, before)
    try:
        yield
    finally:
        for moment in ("before_cursor_execute", "commit"):
            event.remove(Engine, moment, before)


def _configured_url() -> str:
    if url := context.config.get_main_option("sqlalchemy.url"):
        return url
    raise ConfigurationError(
        "The gate was told of no database: set INTERLOCK_DATABASE_URL or sqlalchemy.url, or pass url= to gated()."
    )


def _configured_role() -> str | None:
    """Whom the migration's own sessions log in as, if Alembic's configuration tells."""
    try:
        url = make_url(context.config.get_main_option("sqlalchemy.url") or "")
    except ArgumentError:
        return None
    return url.username if url.get_backend_name() in _POSTGRES else None


def _plain(url: str) -> str:
    """SQLAlchemy's URL as one without its driver."""
    from interlock.integrations.address import plain_url

    try:
        parts = make_url(url)
    except ArgumentError:
        raise ConfigurationError("The gate's database URL cannot be read: postgresql://user@host/name.") from None
    if parts.get_backend_name() not in _POSTGRES:
        raise ConfigurationError(f"The gate needs PostgreSQL, and the URL begins with {parts.drivername!r}.")
    query = {name: value if isinstance(value, str) else ",".join(value) for name, value in parts.query.items()}
    if "ssl" in query:  # what asyncpg calls libpq's sslmode
        query["sslmode"] = query.pop("ssl")
    return plain_url(query | parts.translate_connect_args(username="user", database="dbname"))


_POSTGRES = ("postgresql", "postgres")


@contextmanager
def _failing_in_one_line() -> Iterator[None]:
    """On the command line an error of ours is a line and a status; programs get the error, and so does --raiseerr."""
    arguments = context.config.cmd_opts
    try:
        yield
    except InterlockError as error:
        if not hasattr(arguments, "cmd") or getattr(arguments, "raiseerr", False):
            raise
        sys.stderr.write(f"FAILED: {error}\n")
        raise SystemExit(error.exit_status) from error

"""Alembic behind the migration gate: one line of ``env.py``.

::

    from interlock.integrations.alembic import gated

    if context.is_offline_mode():
        run_migrations_offline()
    else:
        gated(run_migrations_online)      # instead of run_migrations_online()

The gate depends on Alembic's command:

* ``upgrade head``, ``upgrade heads``: the replica goes on without the lock if the database is current. Otherwise one
  replica migrates; the others wait, find that nothing is left to do, and do not call your function.
* ``upgrade REVISION``, ``upgrade +1``, ``downgrade``, ``stamp``: the command takes the gate, and always runs. An
  operator uses these commands, and their result is defined only while no other process migrates.
* ``current``, ``history``, ``check``, ``revision --autogenerate`` and every other command without a destination, and
  every command with ``--sql``: the command runs as if there were no gate.

The command line overrides the arguments in env.py: ``alembic -x gate_policy=fail -x gate_timeout=60
-x gate_newer=start upgrade head``. On the command line an error of Interlock is one line and an exit status of its own
(75: the gate is taken). Programs that call ``alembic.command`` get the exception.

Not covered: an env.py that migrates several version tables (use ``check=None``, which always takes the gate), and a
connection that was opened before the gate and passed through ``config.attributes``.
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
from sqlalchemy import URL, Connection, Engine, event, make_url
from sqlalchemy.exc import ArgumentError

from interlock.errors import ConfigurationError, InterlockError

# The rest of Interlock is imported inside functions. The standard env.py calls logging's fileConfig, which disables
# every logger that exists by then: the gate would wait without logging anything.
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
    """Call `run` inside the gate, unless nothing is to do. `run` is env.py's function that connects and migrates.

    The database is `url`, else INTERLOCK_DATABASE_URL, else Alembic's ``sqlalchemy.url``. It has to be the database
    that is migrated, and the connection has to be direct, not through a pooler. The gate has the name of the version
    table, or `app` if it is given. If the version table has another name or schema than Alembic's default, pass both to
    this function as well as to Alembic. `newer` is the behaviour for a revision that this release does not know; see
    `interlock.integrations.gated_migration.Newer`.
    The other options are those of a gate.
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
        options["url"] = url = _plain(options.get("url") or _same_database(settings.database_url) or _configured_url())
        options.setdefault("timing", timing)
        options.setdefault("own_schema", settings.schema)
        options.setdefault("migration_role", _configured_role())
        options.setdefault("target_schema", version_table_schema)
        options.setdefault("on_wait", lambda sentence: sys.stderr.write(f"{sentence}\n"))
        if _goes_to_head():
            options.setdefault("check", _check(url, version_table, version_table_schema, newer))
        migrate(Gate(app or version_table, **options), run, _watch)


def _has_destination() -> bool:
    """Returns True if the command changes the database: such a command has a destination, and no other command has."""
    if context.is_offline_mode():
        return False
    try:
        context.get_revision_argument()
    except KeyError:
        return False
    except CommandError:  # a destination that does not resolve: Alembic reports it when it runs
        return True
    return True


def _goes_to_head() -> bool:
    """Returns True if the command's destination is the head. Then a database at the head needs no migration."""
    try:
        destination = context.get_revision_argument()
        heads = context.get_head_revisions()
    except CommandError:
        return False
    is_stamp = hasattr(context.config.cmd_opts, "purge")  # `stamp --purge` repairs tables that a check cannot read
    return not is_stamp and set(_tuple(destination)) == set(_tuple(heads))


def _tuple(revisions: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (revisions,) if isinstance(revisions, str) else revisions or ()


def _flags(options: "GateOptions") -> dict[str, Any]:
    """Returns Alembic's -x arguments, and puts the arguments for the gate into `options`."""
    flags = context.get_x_argument(as_dictionary=True)
    if "gate_policy" in flags:
        options["policy"] = cast(Any, flags["gate_policy"])  # the gate refuses an unknown policy
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
    """Returns the verdict on a database at the revisions `applied`, for a release with the migrations of `script`."""
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
    """Reads the revisions in the version table, in a session that is closed before the gate waits."""
    from interlock.stores.postgres import connect, quote_identifier

    name = ".".join(quote_identifier(part) for part in (schema, table) if part)
    async with await connect(url, application_name="interlock alembic") as session:
        if await session.fetchval("SELECT to_regclass($1)", name) is None:
            return []
        return [row["version_num"] for row in await session.fetch(f"SELECT version_num FROM {name}")]  # noqa: S608


@contextmanager
def _watch(before_statement: Callable[[Any], None]) -> Iterator[None]:
    """Listens on all engines, because only env.py knows its engine. Ignores other threads, which do not migrate."""
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
        "The gate has no database: set INTERLOCK_DATABASE_URL or Alembic's sqlalchemy.url, or pass url= to gated()."
    )


def _configured_role() -> str | None:
    """Returns the role of the migration's own sessions, if Alembic's configuration names the role."""
    url = _parsed(context.config.get_main_option("sqlalchemy.url"))
    return url.username if url else None


def _same_database(url: str | None) -> str | None:
    """Returns `url`. Raises ConfigurationError if Alembic's sqlalchemy.url names another database: the gate would check
    the database of `url`, and could skip the migration of Alembic's database."""
    gated, migrated = _parsed(url), _parsed(context.config.get_main_option("sqlalchemy.url"))
    if gated and migrated and gated.database != migrated.database:
        raise ConfigurationError(
            f"INTERLOCK_DATABASE_URL names the database {gated.database!r}, and Alembic's sqlalchemy.url "
            f"names {migrated.database!r}: let both name the database that is migrated, or pass url= to gated()."
        )
    return url


def _parsed(url: str | None) -> URL | None:
    try:
        parts = make_url(url or "")
    except ArgumentError:
        return None
    return parts if parts.get_backend_name() in _POSTGRES else None


def _plain(url: str) -> str:
    """Returns SQLAlchemy's URL in libpq's form, without the name of a driver."""
    from interlock.integrations.libpq_url import plain_url

    try:
        parts = make_url(url)
    except ArgumentError:
        raise ConfigurationError(
            "The gate's database URL is malformed: write it like postgresql://user:password@host/name."
        ) from None
    if parts.get_backend_name() not in _POSTGRES:
        raise ConfigurationError(
            f"The gate needs PostgreSQL, and its database URL begins with {parts.drivername!r}: "
            "set INTERLOCK_DATABASE_URL to a postgresql:// URL, or call the migration without gated()."
        )
    query = {name: value if isinstance(value, str) else ",".join(value) for name, value in parts.query.items()}
    if "ssl" in query:  # asyncpg's name for libpq's sslmode
        query["sslmode"] = query.pop("ssl")
    return plain_url(query | parts.translate_connect_args(username="user", database="dbname"))


_POSTGRES = ("postgresql", "postgres")


@contextmanager
def _failing_in_one_line() -> Iterator[None]:
    """On the command line an error of Interlock becomes one line and an exit status. Programs get the exception, and
    with --raiseerr the command line gets it too."""
    arguments = context.config.cmd_opts
    try:
        yield
    except InterlockError as error:
        if not hasattr(arguments, "cmd") or getattr(arguments, "raiseerr", False):
            raise
        sys.stderr.write(f"FAILED: {error}\n")
        raise SystemExit(error.exit_status) from error

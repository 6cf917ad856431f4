"""The lease commands in an error: one line, the right status, no traceback, no password."""

from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from interlock import schema
from interlock.schema import Use
from support.postgres import execute
from support.programs import interlock
from support.replication import primary_and_standby
from support.sql_leases import acquire

RUN = ("lock", "run", "feeds", "--", "true")
COMMANDS = [RUN, ("lease", "list"), ("lease", "show", "feeds"), ("lease", "break", "feeds", "--yes"), ("why", "feeds")]
every_command = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
both_kinds = pytest.mark.parametrize("command", COMMANDS[:2], ids=" ".join)
"""One command that uses the library, and one that queries the database itself."""


def one_line(error: str) -> str:
    (line,) = error.splitlines()
    assert line.startswith("interlock: "), error
    return line


@both_kinds
@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        ("mysql://u:hunter2@localhost/shop", 78, "should look like postgresql://"),
        ("postgresql://u:hunter2@127.0.0.1:1/shop", 69, "No database answers at postgresql://u@127.0.0.1:1/shop"),
        ("postgresql://u:hunter2@127.0.0.1:notaport/shop", 78, "cannot be read"),
    ],
    ids=["scheme", "unreachable", "unreadable"],
)
def test_a_bad_database_url(command: tuple[str, ...], url: str, status: int, words: str) -> None:
    done = interlock(*command, url=url)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in one_line(done.stderr)
    assert "hunter2" not in done.stderr


@both_kinds
def test_no_database_at_all(command: tuple[str, ...]) -> None:
    done = interlock(*command, INTERLOCK_DATA_DIR="/nonexistent")
    assert done.returncode == 78
    assert "set INTERLOCK_DATABASE_URL, pass --database" in one_line(done.stderr)


@every_command
def test_a_database_without_the_schema(database_url: str, command: tuple[str, ...]) -> None:
    done = interlock(*command, url=database_url)
    assert done.returncode == 78
    assert one_line(done.stderr).endswith("is not in this database: run `interlock schema apply`.")


@both_kinds
def test_a_schema_that_is_older_than_leases(interlock_url: str, command: tuple[str, ...]) -> None:
    execute(interlock_url, "DELETE FROM interlock.migration WHERE version >= 3")
    execute(interlock_url, "DROP FUNCTION interlock.acquire_v1")
    done = interlock(*command, url=interlock_url)
    assert done.returncode == 78
    assert "is older than this release: run `interlock schema apply`" in one_line(done.stderr)


@pytest.mark.exhaustive(beyond=3)
@pytest.mark.parametrize(
    ("name", "words"),
    [("", "is empty or not text"), ("x" * 256, "has 256 bytes"), ("a\nb", "control characters"), ("a\x1bb", "control")],
)
@pytest.mark.parametrize("command", [("lock", "run"), ("lease", "show")], ids=" ".join)
def test_a_bad_name(interlock_url: str, command: tuple[str, ...], name: str, words: str) -> None:
    more = ("--", "true") if command[0] == "lock" else ()
    done = interlock(*command, name, *more, url=interlock_url)
    assert done.returncode == 78
    assert words in one_line(done.stderr)


@pytest.mark.exhaustive(beyond=5)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ttl", "0"], "ttl of 0 s cannot work"),
        (["--ttl", "1e9"], "use 0.5 s to 86400 s (a day)"),
        (["--metadata", f"key={'x' * 5000}"], "use 4096 bytes at most"),
        (["--metadata", "key=\udcff"], "cannot be written as JSON"),
        (["--schema", "No!"], "cannot be the name of Interlock's schema"),
    ],
)
def test_options_that_cannot_work_are_refused_before_any_effect(options: list[str], words: str) -> None:
    done = interlock("lock", "run", "feeds", *options, "--", "true", url="postgresql://127.0.0.1:1/shop")
    assert done.returncode == 78
    assert words in one_line(done.stderr)


@pytest.fixture
def as_role(interlock_url: str) -> Callable[[tuple[Use, ...]], str]:
    """Returns the database's URL for a role with that grant only."""

    def granted(uses: tuple[Use, ...]) -> str:
        role = f"role_of_{urlsplit(interlock_url).path.lstrip('/')}"
        execute(interlock_url, f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2'")
        if uses:
            execute(interlock_url, schema.grant_sql(role, "interlock", uses))
        parts = urlsplit(interlock_url)
        return urlunsplit(parts._replace(netloc=f"{role}:hunter2@{parts.hostname}:{parts.port}"))

    return granted


def test_a_role_without_any_grant(as_role: Callable[[tuple[Use, ...]], str]) -> None:
    url = as_role(())
    for command in COMMANDS:
        done = interlock(*command, url=url)
        assert (done.returncode, done.stdout) == (77, "")
        assert "for leases `interlock schema grant ROLE --for leases`" in one_line(done.stderr)


def test_a_role_that_may_only_use_leases_cannot_break_them(
    interlock_url: str, as_role: Callable[[tuple[Use, ...]], str]
) -> None:
    acquire(interlock_url, "feeds", ttl=30)
    url = as_role(("leases",))
    role = urlsplit(url).username
    assert interlock("lock", "run", "other", "--", "true", url=url).returncode == 0
    assert interlock("lease", "list", url=url).returncode == 0
    assert interlock("lease", "show", "feeds", url=url).stdout.startswith("The lease 'feeds' is held by a test.")
    done = interlock("lease", "break", "feeds", "--yes", url=url)
    assert (done.returncode, done.stdout) == (77, "")
    assert one_line(done.stderr) == (
        f"interlock: The role '{role}' may not break leases: "
        f"let an owner run `interlock schema grant {role} --for operations`."
    )


def test_an_operators_role_can(interlock_url: str, as_role: Callable[[tuple[Use, ...]], str]) -> None:
    acquire(interlock_url, "feeds", ttl=30)
    url = as_role(("leases", "operations"))
    assert interlock("lease", "break", "feeds", "--yes", url=url).returncode == 0
    ((done_by,),) = execute(interlock_url, "SELECT done_by FROM interlock.lease_intervention")
    assert done_by.startswith(f"{urlsplit(url).username}/")


def test_sessions_that_the_owner_of_the_schema_may_not_end(
    interlock_url: str, as_role: Callable[[tuple[Use, ...]], str]
) -> None:
    """A break runs as the owner of its function, which is not a superuser here; the guarding session's role is one."""
    url = as_role(("leases", "operations"))
    role = urlsplit(url).username
    execute(interlock_url, f"GRANT ALL ON ALL TABLES IN SCHEMA interlock TO {role}")
    execute(interlock_url, f"GRANT CREATE ON SCHEMA interlock TO {role}")
    execute(interlock_url, f"ALTER FUNCTION interlock.break_v1 OWNER TO {role}")
    grant = acquire(interlock_url, "feeds", ttl=30)
    with psycopg.connect(interlock_url) as connection:
        connection.execute("SELECT interlock.guard_v1(%s, %s, %s)", grant.triple)
        done = interlock("lease", "break", "feeds", "--yes", "--terminate", url=url)
        assert (done.returncode, done.stdout) == (77, "")
        assert "may not end other roles' sessions, so nothing was changed" in one_line(done.stderr)
    assert interlock("lease", "show", "feeds", url=url).stdout.startswith("The lease 'feeds' is held by")


def test_a_standby() -> None:
    with primary_and_standby(synchronous=False) as pair:
        execute(pair.primary_url, schema.whole_schema("interlock"))
        acquire(pair.primary_url, "feeds", ttl=30)
        pair.wait_caught_up()
        for command in COMMANDS:
            done = interlock(*command, url=pair.standby_url)
            assert (done.returncode, done.stdout) == (69, ""), done
            assert "takes no writes" in one_line(done.stderr)

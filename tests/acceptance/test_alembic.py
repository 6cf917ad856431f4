"""`gated` in Alembic's own env.py templates, with real `alembic` processes against a real server."""

import os
import re
import subprocess
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.config import Config

from interlock.errors import GateBusy
from interlock.gate.name import GateName
from support.postgres import execute
from support.programs import INTERLOCK, environment
from support.tools import ToolProject, ended
from support.waiting import eventually

LONG = "SELECT pg_sleep(60) /* a long migration */"

_RUNNING = """
SELECT count(*) FROM pg_stat_activity
 WHERE state = 'active' AND query LIKE '%a long migration%' AND pid <> pg_backend_pid()
"""
_GATE_HOLDERS = """
SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
 WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted
   AND a.datname = current_database() AND a.application_name LIKE 'interlock gate%%'
"""


class Project(ToolProject):
    """An Alembic environment as `alembic init` makes it, with the gate's line in env.py."""

    module = "alembic"
    imports = "from alembic.config import main"
    call = "main(arguments)"

    def __init__(self, path: Path, url: str, *, driver: str = "psycopg", gate: str = "gated(run_migrations_online)"):
        super().__init__(path)
        self.url = url
        template = "async" if driver in ("asyncpg", "psycopg_async") else "generic"
        ini = path / "alembic.ini"
        command.init(Config(ini), str(path / "scripts"), template=template)
        address = url.replace("postgresql://", f"postgresql+{driver}://")
        self._edit(ini, "driver://user:pass@localhost/dbname", address.replace("%", "%%"))
        self._edit(path / "scripts" / "env.py", "else:\n    run_migrations_online()", f"else:\n    {gate}")
        self._edit(
            path / "scripts" / "env.py",
            "from alembic import context\n",
            "from alembic import context\nfrom interlock.integrations.alembic import gated\n",
        )

    @staticmethod
    def _edit(file: Path, old: str, new: str) -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def revision(self, name: str, after: str | None, *statements: str) -> None:
        upgrade = "\n".join(f"    op.execute({statement!r})" for statement in statements)
        (self.path / "scripts" / "versions" / f"{name}.py").write_text(
            f"from alembic import op\nrevision = {name!r}\ndown_revision = {after!r}\n"
            f"def upgrade():\n{upgrade}\n    op.execute(\"INSERT INTO log VALUES ('{name}')\")\n"
            f"def downgrade():\n    op.execute(\"DELETE FROM log WHERE name = '{name}'\")\n"
        )

    def migrated_to(self, name: str) -> None:
        """Records another revision, as another release would."""
        execute(self.url, "CREATE TABLE log (name text)")
        execute(self.url, "CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        execute(self.url, "INSERT INTO alembic_version VALUES (%s)", name)

    def log(self) -> list[str]:
        return [name for (name,) in execute(self.url, "SELECT name FROM log ORDER BY name")]

    def version(self) -> list[str]:
        return [name for (name,) in execute(self.url, "SELECT version_num FROM alembic_version")]


@contextmanager
def held_gate(url: str, app: str = "alembic_version") -> Iterator[None]:
    """Another session migrates meanwhile."""
    with psycopg.connect(url, autocommit=True) as connection:
        (database,) = connection.execute("SELECT current_database()").fetchone() or ()
        key = GateName(database, "public", app).lock
        assert connection.execute("SELECT pg_try_advisory_lock(%s, %s)", key).fetchone() == (True,)
        yield


@pytest.fixture
def project(tmp_path: Path, database_url: str) -> Project:
    project = Project(tmp_path, database_url)
    # The second migration is slow: the other processes have certainly started when it ends.
    project.revision("r1", None, "CREATE TABLE log (name text)")
    project.revision("r2", "r1", "SELECT pg_sleep(0.5)")
    return project


@pytest.mark.exhaustive
def test_one_of_four_simultaneous_runs_migrates_and_all_succeed(project: Project) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(project.started("upgrade", "head")) for _ in range(4)]
        results = [ended(process) for process in processes]
    assert [status for status, _ in results] == [0] * 4, results
    assert project.log() == ["r1", "r2"]
    assert sum("Running upgrade" in output for _, output in results) == 1


def test_a_current_database_is_passed_without_the_lock(project: Project) -> None:
    project.migrated_to("r2")
    with held_gate(project.url):
        assert project.each("upgrade head", "upgrade heads", "upgrade r2") == [(0, "")] * 3


def test_a_busy_gate_is_one_line_and_a_status(project: Project) -> None:
    with held_gate(project.url):
        for status, output in project.each("-x gate_policy=fail upgrade head", "-x gate_timeout=0.1 upgrade head"):
            *before, last = output.splitlines()
            assert (status, last[:7]) == (75, "FAILED:"), output
            assert all(line.startswith("Waiting at the gate") for line in before), output


def test_a_program_that_calls_alembic_gets_the_error_itself(project: Project) -> None:
    config = Config()
    config.set_main_option("script_location", str(project.path / "scripts"))
    config.set_main_option("sqlalchemy.url", project.url.replace("postgresql://", "postgresql+psycopg://"))
    config.cmd_opts = Namespace(x=["gate_policy=fail"])
    with held_gate(project.url), pytest.raises(GateBusy):
        command.upgrade(config, "head")
    command.upgrade(config, "head")
    assert project.log() == ["r1", "r2"]


def test_only_commands_that_change_the_database_take_the_gate(project: Project) -> None:
    project.migrated_to("r1")
    moving = ["upgrade head", "upgrade r1", "upgrade +1", "downgrade base", "downgrade -1", "stamp r1"]
    with held_gate(project.url):
        results = project.each(*(f"-x gate_policy=fail {command}" for command in moving))
        assert [status for status, _ in results] == [75] * len(moving), results
        current, history, sql, autogenerate = project.each(
            "current", "history -i", "upgrade head --sql", "revision -m none --autogenerate"
        )
    assert (current[0], current[1].splitlines()[-1]) == (0, "r1")
    assert (history[0], sql[0], "INSERT INTO log" in sql[1]) == (0, 0, True)
    assert "Target database is not up to date" in autogenerate[1]


def test_upgrade_downgrade_and_stamp_behave_as_without_a_gate(project: Project) -> None:
    commands = ["upgrade +1", "current", "upgrade head", "current", "downgrade -1", "current", "downgrade base"]
    results = project.each(*commands, "stamp head")
    assert [status for status, _ in results] == [0] * len(results), results
    assert [results[index][1].splitlines()[-1] for index in (1, 3, 5)] == ["r1", "r2 (head)", "r1"]
    assert (project.log(), project.version()) == ([], ["r2"])


def test_sql_needs_no_database(tmp_path: Path) -> None:
    project = Project(tmp_path, "postgresql://user@127.0.0.1:1/nowhere")
    project.revision("r1", None)
    status, output = project.run("upgrade", "head", "--sql")
    assert (status, "INSERT INTO log" in output) == (0, True)


def test_a_database_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    project = Project(tmp_path, "postgresql://user:hidden@127.0.0.1:1/nowhere")
    project.revision("r1", None)
    status, output = project.run("upgrade", "head")
    assert (status, output.count("\n"), "hidden" in output) == (69, 1, False), output


def test_a_gate_on_another_database_is_refused(
    project: Project, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the gate would find nothing to do, and would skip the migration of Alembic's database."""
    monkeypatch.setattr(Project, "variables", {"INTERLOCK_DATABASE_URL": interlock_url})

    status, output = project.run("upgrade", "head")

    assert status == 78, output
    assert output.endswith("let both name the database that is migrated, or pass url= to gated().\n")


def test_a_revision_of_a_newer_release_is_refused_unless_it_is_compatible(project: Project) -> None:
    project.migrated_to("r3")
    refused, started, stamped = project.each("upgrade head", "-x gate_newer=start upgrade head", "stamp --purge r1")
    assert (refused[0], refused[1].count("\n")) == (78, 1), refused
    assert "revision r3, which this release does not know" in refused[1]
    assert (started[0], "the database has revision r3" in started[1]) == (0, True), started
    assert project.log() == []
    assert (stamped[0], project.version()) == (0, ["r1"])


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg", "psycopg_async"])
def test_a_lost_lock_stops_the_statement_that_runs(tmp_path: Path, database_url: str, driver: str) -> None:
    if driver != "psycopg":
        pytest.importorskip("greenlet")
    execute(database_url, "CREATE TABLE log (name text)")
    project = Project(tmp_path, database_url, driver=driver)
    project.revision("r1", None)
    project.revision("r2", "r1", LONG)
    with project.started("upgrade", "head") as process:
        eventually(lambda: execute(database_url, _RUNNING) == [(1,)])
        ((pid,),) = execute(database_url, _GATE_HOLDERS)
        execute(database_url, "SELECT pg_terminate_backend(%s)", pid)
        status, output = ended(process)
    assert (status, "was lost while migrating" in output, "Traceback" in output) == (74, True, False), output
    eventually(lambda: execute(database_url, _RUNNING) == [(0,)])
    assert project.log() == []


@pytest.mark.exhaustive
def test_the_async_template_works(tmp_path: Path, database_url: str) -> None:
    pytest.importorskip("greenlet")
    project = Project(tmp_path, database_url, driver="asyncpg")
    project.revision("r1", None, "CREATE TABLE log (name text)")
    assert [status for status, _ in project.each("upgrade head", "upgrade head")] == [0, 0]
    assert project.log() == ["r1"]


@pytest.mark.exhaustive
def test_a_version_table_elsewhere_is_found_and_names_the_gate(tmp_path: Path, database_url: str) -> None:
    gate = "gated(run_migrations_online, version_table='Versions', version_table_schema='Shop')"
    project = Project(tmp_path, database_url, gate=gate)
    project.revision("r1", None)
    execute(database_url, "CREATE TABLE log (name text)")
    execute(database_url, 'CREATE SCHEMA "Shop"')
    execute(database_url, 'CREATE TABLE "Shop"."Versions" (version_num varchar(32))')
    execute(database_url, 'INSERT INTO "Shop"."Versions" VALUES (\'r1\')')
    assert project.run("upgrade", "head") == (0, "")
    assert project.log() == []


@pytest.mark.exhaustive
def test_the_documented_check_lets_one_replica_migrate_and_the_next_find_nothing_to_do(
    interlock_url: str, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "gate.md").read_text()
    [line] = re.findall(r"```sh\n(interlock gate run --key shop[^`]+)```", page)
    [setting] = re.findall(r"```python\nimport os\n\n(config[^`]+)```", page)
    project = Project(tmp_path, "postgresql://nowhere/shop", gate="run_migrations_online()")
    env = tmp_path / "scripts" / "env.py"
    env.write_text(
        env.read_text().replace("config = context.config\n", f"import os\nconfig = context.config\n{setting}")
    )
    project.revision("one", None, "CREATE TABLE log (name text)")
    project.revision("two", "one", "SELECT 1")
    project.url = interlock_url

    def run(command: str = line) -> subprocess.CompletedProcess[str]:
        surroundings = environment(interlock_url, PATH=f"{Path(INTERLOCK).parent}:{os.environ['PATH']}")
        return subprocess.run(
            ["/bin/sh", "-c", command], cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False
        )

    assert (done := run()).returncode == 0, done.stderr
    assert project.log() == ["one", "two"]
    otherwise = line.replace("alembic upgrade head", "echo migrated")
    assert (run(otherwise).returncode, run(otherwise).stdout) == (0, "")
    project.revision("three", "two", "SELECT 1")
    assert run().returncode == 0
    assert project.version() == ["three"]
    (tmp_path / "scripts" / "versions" / "three.py").unlink()
    older = run(otherwise)
    assert (older.returncode, older.stdout) == (70, ""), older.stderr

"""The tests' own ground: databases that are apart from each other, and quick to have."""

from urllib.parse import urlsplit

from interlock.schema.migrations import all_migrations
from support.postgres import execute, fresh_database


def test_each_test_has_a_database_with_the_schema_and_nothing_else(interlock_url: str) -> None:
    assert execute(interlock_url, "SELECT count(*) FROM interlock.migration") == [(len(all_migrations()),)]
    assert execute(interlock_url, "SELECT count(*) FROM interlock.gate_run") == [(0,)]


def test_a_cloned_database_is_gone_when_its_test_is(server_url: str, template: str) -> None:
    with fresh_database(server_url, template) as url:
        name = urlsplit(url).path.lstrip("/")
    assert execute(server_url, "SELECT count(*) FROM pg_database WHERE datname = %s", name) == [(0,)]

"""Fixtures for all tests. Each test gets its own database; nothing has to be installed before."""

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from interlock.embedded import Cluster
from support import dynamodb, loops, signals, tiers
from support.postgres import fresh_database, make_template, running_cluster

pytest_plugins = ["pytester"]


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers.add_options(parser)


def pytest_configure() -> None:
    os.environ.setdefault("INTERLOCK_DATA_DIR", "/nonexistent/interlock")  # no `interlock up` of this machine
    loops.choose()
    signals.restore_defaults()


def pytest_report_header(config: pytest.Config) -> str:
    return tiers.heading(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints figures that tests measured without a limit, because machines are noisy."""
    reports = terminalreporter.getreports("passed")
    if figures := [value for report in reports for name, value in report.user_properties if name == "figure"]:
        terminalreporter.section("figures")
        terminalreporter.write_line("\n".join(map(str, figures)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from support.process_distribution import OneByOne  # imported late, because tests can run without pytest-xdist

    config.option.loadscopereorder = False
    return OneByOne(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The first test that needs a DynamoDB engine installs it, and the others wait for that."""
    tiers.select(config, items)
    if hasattr(config, "workerinput"):
        from support.process_distribution import spread

        spread(items)
    for item in items:
        if any(engine in item.nodeid.lower() for engine in ("dynamodb", *dynamodb.ENGINES)):
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL for the whole run, on a Unix socket and on a free TCP port."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def server_url(cluster: Cluster) -> str:
    """The URL of the cluster by TCP, as its superuser."""
    return cluster.url(tcp=True)


@pytest.fixture(scope="session")
def administrator(server_url: str) -> Iterator[psycopg.Connection]:
    """A persistent connection that creates the databases: a connection for each would cost as much as a database."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    return make_template(server_url)


@pytest.fixture
def database_url(server_url: str, administrator: psycopg.Connection) -> Iterator[str]:
    """The URL of an empty database."""
    with fresh_database(server_url, "template0", administrator) as url:
        yield url


@pytest.fixture
def interlock_url(server_url: str, template: str, administrator: psycopg.Connection) -> Iterator[str]:
    """The URL of a database with Interlock's schema."""
    with fresh_database(server_url, template, administrator) as url:
        yield url


@pytest.fixture(scope="session")
def ministack() -> Iterator[str]:
    with dynamodb.running("ministack") as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def dynalite() -> Iterator[str]:
    with dynamodb.running("dynalite") as endpoint:
        yield endpoint


@pytest.fixture
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in dynamodb.CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["ministack", pytest.param("dynalite", marks=pytest.mark.exhaustive)])
def dynamodb_endpoint(request: pytest.FixtureRequest, aws_credentials: None) -> str:
    """An engine that speaks DynamoDB's protocol. One also has transactions, and is enough for the quick tier."""
    endpoint: str = request.getfixturevalue(request.param)
    return endpoint


@pytest.fixture
def dynamodb_url(dynamodb_endpoint: str) -> str:
    """The URL of an empty table."""
    return dynamodb.fresh_table(dynamodb_endpoint)

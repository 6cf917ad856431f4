import pytest

from support.postgres import execute
from support.repeatable_writes import SCHEMA, RepeatableWrites


@pytest.fixture
def orders_url(database_url: str) -> str:
    """A database with the tables of a service, without Interlock's."""
    execute(database_url, SCHEMA)
    execute(database_url, RepeatableWrites.setup)
    return database_url

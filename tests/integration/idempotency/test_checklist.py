"""The rules of repeatable writes, item by item: kept by Interlock's operations, and broken by plain writes."""

import psycopg
import pytest

from support.postgres import execute
from support.repeat_scenarios import CHECKLIST, Scenario
from support.repeatable_writes import SCHEMA, RepeatableWrites

each = pytest.mark.parametrize("scenario", CHECKLIST, ids=lambda scenario: scenario.__name__)


@each
def test_it_holds(scenario: Scenario, orders_url: str) -> None:
    with psycopg.connect(orders_url) as connection:
        scenario(RepeatableWrites(), connection)


@pytest.mark.exhaustive
@each
def test_it_does_not_hold_for_plain_writes(scenario: Scenario, database_url: str) -> None:
    careless = CHECKLIST[scenario]()
    execute(database_url, SCHEMA)
    execute(database_url, careless.setup)
    with psycopg.connect(database_url) as connection, pytest.raises((AssertionError, ValueError, psycopg.Error)):
        scenario(careless, connection)

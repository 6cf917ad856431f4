"""The rules of writes that may be repeated, item by item: kept here, and broken by writes without care."""

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
def test_without_care_it_does_not(scenario: Scenario, database_url: str) -> None:
    careless = CHECKLIST[scenario]()
    execute(database_url, SCHEMA)
    execute(database_url, careless.setup)
    with psycopg.connect(database_url) as connection, pytest.raises((AssertionError, ValueError, psycopg.Error)):
        scenario(careless, connection)

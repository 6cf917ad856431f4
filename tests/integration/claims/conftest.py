from collections.abc import Iterator

import psycopg
import pytest

from interlock import Interlock
from interlock.coordination.claims import Claims, dns_label
from support.name_locks import transaction


@pytest.fixture
def names(interlock_url: str) -> Claims:
    return Interlock(interlock_url).claims("dns", names=dns_label)


@pytest.fixture
def one(interlock_url: str) -> Iterator[psycopg.Connection]:
    with transaction(interlock_url) as connection:
        yield connection


@pytest.fixture
def two(interlock_url: str) -> Iterator[psycopg.Connection]:
    with transaction(interlock_url) as connection:
        yield connection

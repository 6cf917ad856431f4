import itertools
from collections.abc import Iterator

import pytest

from interlock.dns import Dns, dns_from_url
from support.bind import Bind, running_bind

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def bind() -> Iterator[Bind]:
    """A name server for the whole run; each test has a name of its own."""
    with running_bind() as bind:
        yield bind


@pytest.fixture
def names(bind: Bind) -> Dns:
    return dns_from_url(bind.url())


@pytest.fixture
def host() -> str:
    return f"host-{next(_numbers)}"

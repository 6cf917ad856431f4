"""URLs of DynamoDB tables."""

import pytest

from interlock import AsyncInterlock
from interlock.errors import ConfigurationError
from interlock.stores.dynamodb.address import TableAddress, parsed


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("dynamodb://Locks", TableAddress("Locks")),
        ("DynamoDB://locks/", TableAddress("locks")),
        ("dynamodb://locks?region=eu-west-1", TableAddress("locks", "eu-west-1")),
        (
            "dynamodb://locks?endpoint=http%3A%2F%2F127.0.0.1%3A4566",
            TableAddress("locks", None, "http://127.0.0.1:4566"),
        ),
        ("dynamodb://locks?endpoint=http://127.0.0.1:4566", TableAddress("locks", None, "http://127.0.0.1:4566")),
        ("dynamodb://locks?prefix=APP%23&max_clock_skew=0.5", TableAddress("locks", None, None, "APP#", 0.5)),
    ],
)
def test_what_a_url_names(url: str, address: TableAddress) -> None:
    assert parsed(url) == address


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("dynamodb://", "has to name the table"),
        ("dynamodb://a", "3 to 255"),
        ("dynamodb://locks/more", "has to name the table"),
        ("dynamodb://locks#x", "written %23"),
        ("dynamodb://locks?prefix=LOCK#", "written %23"),
        ("dynamodb://key:geheim@locks", "must not have credentials"),
        ("dynamodb://locks?zone=1", "parameter 'zone'"),
        ("dynamodb://locks?region", "cannot be read"),
        ("dynamodb://locks?endpoint=127.0.0.1:4566", "http or https"),
        ("dynamodb://locks?prefix=", "1 to 64"),
        ("dynamodb://locks?prefix=RECORD%23", "RECORD#"),
        ("dynamodb://locks?max_clock_skew=soon", "number of seconds"),
        ("dynamodb://locks?max_clock_skew=-1", "number of seconds"),
        ("dynamodb://locks?max_clock_skew=inf", "number of seconds"),
    ],
)
def test_a_url_that_cannot_work_is_refused_when_the_root_object_is_made(url: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as refused:
        AsyncInterlock(url)
    assert "geheim" not in str(refused.value)


def test_settings_of_another_database_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="for PostgreSQL"):
        AsyncInterlock("dynamodb://locks", schema="other")
    with pytest.raises(ConfigurationError, match="for PostgreSQL"):
        AsyncInterlock("dynamodb://locks", pooler="transaction")


def test_session_locks_need_sessions() -> None:
    with pytest.raises(ConfigurationError, match="use a lease"):
        AsyncInterlock("dynamodb://locks").session_lock("feeds")

import pytest
from psycopg.conninfo import conninfo_to_dict

from interlock.integrations.libpq_url import plain_url
from interlock.stores.postgres.url import checked, redacted


@pytest.mark.parametrize(
    "parameters",
    [
        {"host": "db.example", "port": 5433, "user": "shop", "password": "secret", "dbname": "shop"},
        {"host": "db", "user": "a:b/c@d", "password": "p@ss:/?#[]% &=ü", "dbname": "my/db ?"},
        {"host": "::1", "port": "5432", "user": "shop", "dbname": "shop"},
        {"host": "/var/run/postgresql", "port": 5433, "user": "shop", "password": "secret", "dbname": "shop"},
        {"host": "one,two", "port": "1,2", "user": "shop", "dbname": "shop"},
        {"user": "shop", "dbname": "shop", "port": 5433},
        {"dbname": "shop"},
        {"service": "shop", "passfile": "/home/shop/.pgpass"},
        {"host": "db", "dbname": "shop", "sslmode": "verify-full", "sslrootcert": "/ca.pem", "options": "-c x=a b"},
    ],
)
def test_libpq_reads_the_same_parameters_from_the_url(parameters: dict[str, object]) -> None:
    url = plain_url(parameters)
    assert conninfo_to_dict(checked(url)) == {name: str(value) for name, value in parameters.items()}
    assert "secret" not in redacted(url)


def test_parameters_of_other_drivers_are_left_out() -> None:
    url = plain_url({"host": "db", "dbname": "shop", "connect_timeout": 5, "context": object(), "sslmode": None})
    assert url == "postgresql://db/shop"

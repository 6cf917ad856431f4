"""The kinds of databases that keep leases, by the scheme of a URL."""

from interlock.errors import ConfigurationError

SCHEMES = ("postgresql", "postgres", "sqlite", "dynamodb")
FOR_LEASES_ALONE = ("sqlite", "dynamodb")

_FORMS = (
    "it should look like postgresql://user:password@host:5432/database, sqlite:///file.db, "
    "or dynamodb://table?region=eu-west-1"
)


def sqlalchemy_form(scheme: str) -> str:
    """Returns the message for a scheme that also names a driver, such as ``postgresql+psycopg``."""
    kind, _, driver = scheme.partition("+")
    return (
        f"The database URL begins with {scheme + '://'!r}, which is SQLAlchemy's form: drop the '+{driver}', "
        f"so that it begins with {kind + '://'!r}."
    )


def scheme_of(url: str) -> str:
    """Returns the scheme in lower case. Its ConfigurationError never repeats the rest of the URL."""
    scheme = url.partition(":")[0].lower() if "://" in url else ""
    if "+" in scheme:
        raise ConfigurationError(sqlalchemy_form(scheme))
    if scheme not in SCHEMES:
        shown = f"begins with {scheme + '://'!r}" if scheme else "has no scheme" if url else "is empty"
        raise ConfigurationError(f"The database URL {shown}: {_FORMS}.")
    return scheme

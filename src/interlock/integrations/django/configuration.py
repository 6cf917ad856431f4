"""Interlock's configuration in Django's settings: ``INTERLOCK = {…}`` or ``INTERLOCK_URL``, else ``DATABASES``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils.connection import ConnectionDoesNotExist

from interlock.config import Settings
from interlock.coordination.root import RootOptions
from interlock.errors import ConfigurationError
from interlock.integrations.libpq_url import plain_url

_KEYS = ("URL", "DATABASE", "OPTIONS", "IDEMPOTENCY")


@dataclass(frozen=True)
class Configuration:
    """The URL of the lease database, the alias of the database for guarded transactions, and the root object's
    options."""

    url: str
    alias: str
    options: Mapping[str, Any]


def configured() -> Configuration:
    """Returns the current configuration. Each call reads the settings again, because a test run has its own databases.

    Raises ConfigurationError.
    """
    given = own_settings()
    alias = _alias(given)
    options = given.get("OPTIONS", {})
    if not isinstance(options, Mapping):
        raise ConfigurationError("INTERLOCK['OPTIONS'] has to be a dict with the keyword arguments of Interlock().")
    if unknown := sorted(set(options) - set(RootOptions.__annotations__)):
        raise ConfigurationError(
            f"INTERLOCK['OPTIONS'] has {unknown[0]!r}, which is not an argument of Interlock(): "
            f"use {', '.join(RootOptions.__annotations__)}."
        )
    return Configuration(_url(given, alias), alias, dict(options))


def own_settings() -> Mapping[str, Any]:
    given = getattr(settings, "INTERLOCK", {})
    if not isinstance(given, Mapping):
        raise ConfigurationError("The setting INTERLOCK has to be a dict, such as {'DATABASE': 'default'}.")
    if unknown := sorted(map(str, set(given) - set(_KEYS))):
        raise ConfigurationError(f"The setting INTERLOCK has {unknown[0]!r}, which is unknown: use {', '.join(_KEYS)}.")
    return given


def _alias(given: Mapping[str, Any]) -> str:
    alias = given.get("DATABASE", DEFAULT_DB_ALIAS)
    if not isinstance(alias, str) or alias not in connections:
        raise ConfigurationError(
            f"INTERLOCK['DATABASE'] is {alias!r}, which is not in DATABASES: use one of {', '.join(connections)}."
        )
    return alias


def _url(given: Mapping[str, Any], alias: str) -> str:
    url = given.get("URL") or getattr(settings, "INTERLOCK_URL", None)
    if url is None and alias == DEFAULT_DB_ALIAS:
        url = Settings.load().database_url
    if url is None:
        return _url_of(alias)
    if not isinstance(url, str):
        raise ConfigurationError(
            "INTERLOCK['URL'] has to be a string, such as postgresql://user:password@host:5432/database."
        )
    return url


def _url_of(alias: str) -> str:
    try:
        connection = connections[alias]
        parameters = connection.get_connection_params()
    except (ConnectionDoesNotExist, ImproperlyConfigured) as error:
        raise ConfigurationError(f"The database {alias!r} of DATABASES cannot be used: {error}.") from error
    if connection.vendor == "postgresql":
        return plain_url(parameters)
    if connection.vendor == "sqlite" and not connection.is_in_memory_db():
        return "sqlite:///" + quote(str(Path(parameters["database"]).absolute()))
    kind = "SQLite in memory" if connection.vendor == "sqlite" else connection.display_name
    raise ConfigurationError(
        f"The database {alias!r} is {kind}, which cannot keep leases: set INTERLOCK['DATABASE'] to the alias of a "
        "PostgreSQL database or of a SQLite file, or set INTERLOCK['URL']."
    )

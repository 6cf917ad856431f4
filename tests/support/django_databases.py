"""Django in the test's process, with the test's database behind its connections."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

import django
import django.db
import django.db.transaction
import pytest
from asgiref.local import Local
from django.conf import settings


@contextmanager
def django_databases(url: str, **options: Any) -> Iterator[Any]:
    """The package `django.db`, with that database for `default` and for `other`. Used on an event loop's thread too."""
    if not settings.configured:
        settings.configure(DATABASES={}, USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    connections = django.db.connections
    databases = connections.configure_settings({alias: _database(url, options) for alias in ("default", "other")})
    # Django would open new connections for each task, and never close them.
    made = cache(connections.create_connection)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "yes")
        patch.setattr(connections, "settings", databases)
        patch.setattr(connections, "_connections", Local(thread_critical=True))
        patch.setattr(connections, "create_connection", made)
        yield django.db
        for alias in databases:
            made(alias).close()
            if "pool" in options:
                made(alias).close_pool()


def _database(url: str, options: dict[str, Any]) -> dict[str, Any]:
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": unquote(parts.path)[1:]}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": parts.hostname,
        "PORT": parts.port,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "NAME": parts.path.lstrip("/"),
        "OPTIONS": options,
    }

"""The system checks of Interlock's settings, for `manage.py check`."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import Error, register

from interlock.errors import ConfigurationError

_MIDDLEWARE = "interlock.integrations.idempotency.django.IdempotencyMiddleware"


def check_settings(**_: Any) -> list[Any]:
    return list(_findings())


def _findings() -> Iterator[Any]:
    from interlock.coordination.root import AsyncInterlock
    from interlock.integrations.django.configuration import configured, own_settings

    try:
        found = configured()
        AsyncInterlock(found.url, **found.options)
    except (ConfigurationError, TypeError) as error:
        # A project without these settings may use only the gate, and gets no error.
        if hasattr(settings, "INTERLOCK") or hasattr(settings, "INTERLOCK_URL"):
            yield Error(str(error), id="interlock.E001")
        return
    if _MIDDLEWARE in settings.MIDDLEWARE or "IDEMPOTENCY" in own_settings():
        from interlock.integrations.idempotency.django import configured_rules

        try:
            configured_rules()
        except ConfigurationError as error:
            yield Error(str(error), id="interlock.E002")


def register_checks() -> None:
    register(check_settings)

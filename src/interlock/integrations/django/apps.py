from django.apps import AppConfig


class InterlockConfig(AppConfig):  # type: ignore[misc]
    name = "interlock.integrations.django"
    label = "interlock"

from django.apps import AppConfig


class InterlockConfig(AppConfig):  # type: ignore[misc]
    name = "interlock.integrations.django"
    label = "interlock"

    def ready(self) -> None:
        from interlock.integrations.django.checks import register_checks

        register_checks()

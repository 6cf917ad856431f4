"""``manage.py gated_migrate``; see `interlock.integrations.django`."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, get_args

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import connections

from interlock.errors import InterlockError
from interlock.gate import Gate, Verdict
from interlock.gate.gate import Policy
from interlock.integrations import gated_migration
from interlock.integrations.django.database import disconnect, gate_url, watch
from interlock.integrations.django.migration_state import judge


class Command(migrate.Command):  # type: ignore[misc]
    help = "Updates the database schema like `migrate`, in one replica at a time."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        gate = parser.add_argument_group("migration gate")
        gate.add_argument(
            "--gate-policy",
            choices=get_args(Policy),
            default="wait",
            help="The behaviour while another replica migrates. Default: wait.",
        )
        gate.add_argument(
            "--gate-timeout",
            type=float,
            metavar="SECONDS",
            help="The longest time to wait for another replica. Default: wait as long as it migrates.",
        )
        gate.add_argument(
            "--gate-newer",
            choices=get_args(gated_migration.Newer),
            default="refuse",
            help="The behaviour if a newer release has migrated the database. Default: refuse.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        run = partial(super().handle, *args, **options)
        if options["plan"] or options["check_unapplied"]:
            run()
            return
        with _failing_in_one_line():
            reason = gated_migration.migrate(self._gate(options), run, watch)
        self._report(reason, options["verbosity"])

    def _gate(self, options: dict[str, Any]) -> Gate:
        settings, timing = gated_migration.settings_and_timing()
        connection = connections[options["database"]]
        url = gate_url(connection, settings)
        disconnect(connection)  # Django's system checks may have connected

        def check() -> Verdict:
            try:
                return judge(connection, options["app_label"], options["gate_newer"])
            finally:
                disconnect(connection)

        always = options["migration_name"] or options["prune"] or options["run_syncdb"]
        return Gate(
            "django_migrations",
            url=url,
            check=None if always else check,
            policy=options["gate_policy"],
            timeout=options["gate_timeout"],
            on_wait=self.stderr.write,
            migration_role=connection.get_connection_params().get("user"),
            timing=timing,
            own_schema=settings.schema,
        )

    def _report(self, reason: str, verbosity: int) -> None:
        if reason == "newer":
            self.stderr.write(self.style.WARNING("Starting with a schema that a newer release has migrated."))
        elif reason == "busy":
            self.stderr.write(self.style.WARNING("Another replica is migrating: this replica did nothing."))
        elif reason == "current" and verbosity >= 1:
            self.stdout.write("No migrations to apply.")


@contextmanager
def _failing_in_one_line() -> Iterator[None]:
    try:
        yield
    except InterlockError as error:
        raise CommandError(str(error), returncode=error.exit_status) from error

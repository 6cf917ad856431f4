"""The verdict on a database: Django's own records compared with the migrations of this release."""

from collections.abc import Collection, Iterable
from typing import Any

from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.executor import MigrationExecutor

from interlock.gate import Verdict
from interlock.integrations.gated_migration import Newer, newer_verdict

Key = tuple[str, str]
"""An app's label and a migration's name."""


def judge(connection: Any, app_label: str | None, newer: Newer) -> Verdict:
    """Returns the verdict for all apps, or for the app with `app_label`. Missing migrations are applied to a newer
    schema too, unless `newer` is `refuse`."""
    executor = MigrationExecutor(connection)
    recorded = executor.recorder.applied_migrations().keys()
    verdict = Verdict.CURRENT
    if unknown := unknown_and_newer(recorded, executor.loader.disk_migrations):
        verdict = newer_verdict(f"migration {', '.join(map('.'.join, unknown))}", newer, "--gate-newer=start")
    return Verdict.BEHIND if _is_something_to_do(executor, recorded, app_label) else verdict


def unknown_and_newer(recorded: Iterable[Key], known: Collection[Key]) -> list[Key]:
    """Returns the recorded migrations that a newer release has added to apps of this release.

    This release does not have such a migration, and its number is above all numbers of the app in this release. The
    number distinguishes it from migrations that were squashed or deleted long ago, whose records Django keeps.
    """
    newest: dict[str, int] = {}
    for app, name in known:
        newest[app] = max(newest.get(app, 0), _number(name))
    return sorted(key for key in recorded if key[0] in newest and key not in known and _number(key[1]) > newest[key[0]])


def _number(name: str) -> int:
    return MigrationAutodetector.parse_number(name) or 0


def _is_something_to_do(executor: Any, recorded: Collection[Key], app_label: str | None) -> bool:
    loader = executor.loader
    targets = [key for key in loader.graph.leaf_nodes() if app_label in (None, key[0])]
    if app_label and not targets:
        return True  # no such app, or one without migrations: `migrate` reports this better
    # A squashed migration whose parts are all applied is in no plan. It has to be recorded as applied before a later
    # release can delete its parts.
    unrecorded = loader.applied_migrations.keys() - set(recorded)
    return bool(unrecorded or executor.migration_plan(targets))

"""Django: leases on its own database, a guard for its transactions, and a migration gate for every replica's start.

::

    from interlock.integrations.django import guarded, lease

    with lease("invoices") as grant:              # one replica at a time
        with guarded(grant):                      # transaction.atomic(), which commits only while the lease is ours
            Invoice.objects.create(…)

Without settings that is the default database; see docs/how-to/integrations.md. The migration gate is a
management command:

::

    INSTALLED_APPS = ["interlock.integrations.django", …]

    python manage.py gated_migrate                # instead of: python manage.py migrate

It takes what ``migrate`` takes, and ``--gate-timeout``, ``--gate-policy``, ``--gate-newer``:

* ``gated_migrate``, ``gated_migrate APP``: goes on without the lock if there is nothing to migrate. Otherwise one
  replica migrates, and the others wait and then find that there is nothing left to do.
* ``gated_migrate APP MIGRATION``, ``--prune``, ``--run-syncdb``: takes the gate, and always runs.
* ``--plan``, ``--check``: runs as if there were no gate.

Where there is nothing to migrate, ``migrate`` would still have sent ``post_migrate``; here the signal is sent by the
replica that migrated. If that one died between the two, or if handlers of yours have to run at every start, run
``gated_migrate --run-syncdb``, which always takes the gate and always sends the signal.

The gate's database is the one of the settings, reached directly; where those lead to a pooler, set
INTERLOCK_DATABASE_URL to the address of the database itself (it counts for the alias ``default``).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.integrations.django.leases import alease, async_locks, guarded, lease, locks

__all__ = ["alease", "async_locks", "guarded", "lease", "locks"]


def __getattr__(name: str) -> Any:
    """Imported when first used: not every Django process takes leases."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from interlock.integrations.django import leases

    return getattr(leases, name)

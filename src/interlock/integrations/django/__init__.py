"""Django: leases on its database, a guard for its transactions, and a migration gate for the start of replicas.

::

    from interlock.integrations.django import guarded, lease

    with lease("invoices") as grant:              # one replica at a time
        with guarded(grant):                      # transaction.atomic(), which commits only while the lease is held
            Invoice.objects.create(…)

Without settings the leases are on the default database; see docs/how-to/integrations.md. The migration gate is a
management command:

::

    INSTALLED_APPS = ["interlock.integrations.django", …]

    python manage.py gated_migrate                # instead of: python manage.py migrate

The command takes the options of ``migrate``, and ``--gate-timeout``, ``--gate-policy``, ``--gate-newer``:

* ``gated_migrate``, ``gated_migrate APP``: the replica goes on without the lock if there is nothing to migrate.
  Otherwise one replica migrates; the others wait, and then find that nothing is left to do.
* ``gated_migrate APP MIGRATION``, ``--prune``, ``--run-syncdb``: the command takes the gate, and always runs.
* ``--plan``, ``--check``: the command runs as if there were no gate.

``migrate`` sends ``post_migrate`` even if there is nothing to migrate; ``gated_migrate`` sends the signal only from the
replica that migrated. If that replica died before it sent the signal, or if your handlers have to run at every start,
run ``gated_migrate --run-syncdb``, which always takes the gate and always sends the signal.

The gate uses the database of the settings and needs a direct connection. If the settings lead to a pooler, set
INTERLOCK_DATABASE_URL to the address of the database itself (the variable applies to the alias ``default``).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.integrations.django.leases import alease, async_locks, guarded, lease, locks

__all__ = ["alease", "async_locks", "guarded", "lease", "locks"]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, because not every Django process uses leases."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from interlock.integrations.django import leases

    return getattr(leases, name)

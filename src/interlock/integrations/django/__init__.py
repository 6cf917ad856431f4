"""Django behind the migration gate: a management command for every replica's start.

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

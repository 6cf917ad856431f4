"""Instances as PostgreSQL clusters on this machine, each with processes, a directory and a port.

::

    driver = LocalDriver(Path("/var/lib/interlock/instances"))
    await driver.provision(Spec(id="4f1d…", name="shop"))
    await driver.observe("4f1d…")

Any number of drivers, in any number of processes, may serve one directory.
"""

from interlock.instances.drivers.local.driver import LocalDriver

__all__ = ["LocalDriver"]

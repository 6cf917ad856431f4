"""What is done to an instance that is whole. Whoever calls this holds its lock, unless it says otherwise."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from interlock.embedded import Cluster
from interlock.embedded.accounts import ourselves
from interlock.embedded.address import LOOPBACKS
from interlock.embedded.files import write_whole
from interlock.errors import AccessDenied, AddressInUse, BadSpec, DatabaseUnreachable
from interlock.instances.drivers.local.directory import Directory
from interlock.instances.drivers.local.machine import Machine
from interlock.instances.drivers.local.marker import Marker, read_marker
from interlock.instances.drivers.local.owner import make_owner
from interlock.instances.drivers.local.parameters import check_parameters
from interlock.instances.drivers.local.reload import check_files, reload
from interlock.instances.drivers.local.steps import did
from interlock.instances.drivers.owner import new_password
from interlock.stores.postgres import Session, connect
from interlock.tls.certificate import Certificate
from interlock.tls.verification import checked

Change = Literal["reloaded", "restart needed"]

# Whatever the instance's parameters are. They are its users': with some of them what we ask for would fail, and with
# another search path it would be functions of theirs that the superuser calls.
_OF_OUR_SESSIONS = {
    "search_path": "pg_catalog",
    "default_transaction_read_only": "off",
    "idle_session_timeout": "0",
    "lock_timeout": "0",
    "statement_timeout": "0",
}


def bring_up(machine: Machine, directory: Directory, marker: Marker) -> None:
    """Return when it accepts connections, with the password that its owner is given."""
    cluster = machine.cluster(marker)
    if not cluster.is_running():
        try:
            machine.cluster(marker, machine.reachable(machine.binaries(marker.major))).start()
        except AddressInUse as error:
            raise AddressInUse(
                f"The port {marker.port} of the instance {marker.name} ({marker.id}) is taken by another program: end "
                "that, and start the instance again."
            ) from error
    settle_password(directory, marker, cluster)


def bring_down(machine: Machine, directory: Directory, marker: Marker) -> None:
    """Return when its processes are gone. Clients are sent away, their transactions rolled back."""
    machine.cluster(marker).stop("fast")


def known_password(machine: Machine, id: str) -> str | None:
    """None if it is being changed, or if there is no such instance that is whole. This one holds no lock."""
    directory = machine.directory(id)
    directory.check_ours()
    marker = read_marker(directory)
    if marker is None or not marker.is_whole or directory.next_password.exists():
        return None
    with suppress(FileNotFoundError):  # removed since
        return directory.password.read_text()
    return None


def password(machine: Machine, directory: Directory, marker: Marker) -> str:
    return settle_password(directory, marker, machine.cluster(marker))


def give_new_password(machine: Machine, directory: Directory, marker: Marker) -> None:
    """Return when the server knows it; one that is stopped will, before anybody can log in."""
    write_whole(directory.next_password, new_password().encode(), ourselves())
    did(marker.id, "password chosen")
    settle_password(directory, marker, machine.cluster(marker))


def settle_password(directory: Directory, marker: Marker, cluster: Cluster) -> str:
    """The owner's password. A change that was begun, perhaps by somebody who is dead, is finished first."""
    if not directory.next_password.exists():
        return directory.password.read_text()
    password = directory.next_password.read_text()
    if cluster.is_running():
        asyncio.run(_tell(cluster, marker, password))
        did(marker.id, "password told")
        directory.next_password.replace(directory.password)
    return password


def change_parameters(machine: Machine, directory: Directory, marker: Marker, parameters: Mapping[str, str]) -> Change:
    """`parameters` are all that are wanted. Of one that is stopped they count from its start on."""
    binaries = machine.binaries(marker.major)
    wanted = replace(marker, parameters=check_parameters(parameters, binaries, machine.defaults))
    if not (cluster := machine.cluster(marker)).is_running():
        wanted.write(directory)
        return "reloaded" if cluster.status() is None else "restart needed"  # on its way up it goes by the old ones
    old, new = (machine.cluster(which, machine.reachable(binaries)) for which in (marker, wanted))
    new.write_settings()
    try:
        return asyncio.run(_take_up(new, wanted, directory))
    except BadSpec:
        old.write_settings()
        raise
    except (AccessDenied, DatabaseUnreachable):  # it lets nobody in, and it may be its parameters that keep us out
        wanted.write(directory)
        return "restart needed"


def use_certificate(machine: Machine, directory: Directory, marker: Marker, certificate: Certificate | None) -> None:
    """Of one that is stopped it counts from its start on."""
    issued = None if certificate is None else checked(certificate, LOOPBACKS[0])
    cluster = machine.cluster(marker, machine.reachable(machine.binaries(marker.major)))
    if issued is None:
        cluster.use_own_certificate()
    else:
        cluster.use_certificate(issued.chain.encode(), issued.key.encode(), (issued.ca or "").encode())


async def superuser(cluster: Cluster) -> Session:
    """A session of the role that only we know the password of."""
    return await connect(cluster.url(), application_name="interlock instances", timeout=60, settings=_OF_OUR_SESSIONS)


async def _tell(cluster: Cluster, marker: Marker, password: str) -> None:
    async with await superuser(cluster) as session:
        await make_owner(session, marker.name, password)


async def _take_up(cluster: Cluster, marker: Marker, directory: Directory) -> Change:
    async with await superuser(cluster) as session:
        await check_files(session)
        marker.write(directory)
        did(marker.id, "parameters written")
        return await reload(session)

"""Operations on a complete instance. The caller has to hold the instance's lock, except where stated otherwise."""

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
from interlock.instances.drivers.local.directory import Directory, log_step
from interlock.instances.drivers.local.environment import LocalEnvironment
from interlock.instances.drivers.local.marker import Marker, read_marker
from interlock.instances.drivers.local.parameters import check_parameters
from interlock.instances.drivers.local.superuser import check_files, make_owner, reload, superuser
from interlock.instances.drivers.owner import new_password
from interlock.tls.certificate import Certificate
from interlock.tls.verification import checked

Change = Literal["reloaded", "restart needed"]


def bring_up(environment: LocalEnvironment, directory: Directory, marker: Marker) -> None:
    """Start the instance, and return when it accepts connections with the owner's current password."""
    cluster = environment.cluster(marker)
    if not cluster.is_running():
        try:
            environment.cluster(marker, environment.reachable(environment.binaries(marker.major))).start()
        except AddressInUse as error:
            raise AddressInUse(
                f"The port {marker.port} of the instance {marker.name} ({marker.id}) is taken by another program: end "
                "that program, and start the instance again."
            ) from error
    finish_password_change(directory, marker, cluster)


def bring_down(environment: LocalEnvironment, directory: Directory, marker: Marker) -> None:
    """Stop the instance, and return when its processes are gone.

    Clients are disconnected, and their transactions rolled back.
    """
    environment.cluster(marker).stop("fast")


def known_password(environment: LocalEnvironment, id: str) -> str | None:
    """Returns the password; None if it is being changed, or if there is no complete instance. This takes no lock."""
    directory = environment.directory(id)
    directory.check_owned()
    marker = read_marker(directory)
    if marker is None or not marker.is_whole or directory.next_password.exists():
        return None
    with suppress(FileNotFoundError):  # removed in the meantime
        return directory.password.read_text()
    return None


def password(environment: LocalEnvironment, directory: Directory, marker: Marker) -> str:
    return finish_password_change(directory, marker, environment.cluster(marker))


def reset_password(environment: LocalEnvironment, directory: Directory, marker: Marker) -> None:
    """Set a new password, and return when the server has it.

    A stopped server gets the password at its start, before clients can log in.
    """
    write_whole(directory.next_password, new_password().encode(), ourselves())
    log_step(marker.id, "password chosen")
    finish_password_change(directory, marker, environment.cluster(marker))


def finish_password_change(directory: Directory, marker: Marker, cluster: Cluster) -> str:
    """Returns the owner's password. A change that was begun, perhaps by a process that has died, is finished first."""
    if not directory.next_password.exists():
        return directory.password.read_text()
    password = directory.next_password.read_text()
    if cluster.is_running():
        asyncio.run(_set_password(cluster, marker, password))
        log_step(marker.id, "password told")
        directory.next_password.replace(directory.password)
    return password


def change_parameters(
    environment: LocalEnvironment, directory: Directory, marker: Marker, parameters: Mapping[str, str]
) -> Change:
    """Replace all parameters. A stopped instance uses them from its next start on."""
    binaries = environment.binaries(marker.major)
    wanted = replace(marker, parameters=check_parameters(parameters, binaries, environment.defaults))
    if not (cluster := environment.cluster(marker)).is_running():
        wanted.write(directory)
        return (
            "reloaded" if cluster.status() is None else "restart needed"
        )  # a server that is starting has read the old ones
    old, new = (environment.cluster(which, environment.reachable(binaries)) for which in (marker, wanted))
    new.write_settings()
    try:
        return asyncio.run(_apply_parameters(new, wanted, directory))
    except BadSpec:
        old.write_settings()
        raise
    except (AccessDenied, DatabaseUnreachable):  # it refuses connections, perhaps because of its current parameters
        wanted.write(directory)
        return "restart needed"


def use_certificate(
    environment: LocalEnvironment, directory: Directory, marker: Marker, certificate: Certificate | None
) -> None:
    """Replace the certificate. A stopped instance uses it from its next start on."""
    issued = None if certificate is None else checked(certificate, LOOPBACKS[0])
    cluster = environment.cluster(marker, environment.reachable(environment.binaries(marker.major)))
    if issued is None:
        cluster.use_own_certificate()
    else:
        cluster.use_certificate(issued.chain.encode(), issued.key.encode(), (issued.ca or "").encode())


async def _set_password(cluster: Cluster, marker: Marker, password: str) -> None:
    async with await superuser(cluster) as session:
        await make_owner(session, marker.name, password)


async def _apply_parameters(cluster: Cluster, marker: Marker, directory: Directory) -> Change:
    async with await superuser(cluster) as session:
        await check_files(session)
        marker.write(directory)
        log_step(marker.id, "parameters written")
        return await reload(session)

"""Refuses files on network file systems, where locks and shared memory do not reach other machines.

Each machine would grant the same lease.
"""

import os
import re
from pathlib import Path

from interlock.errors import ConfigurationError

_MOUNTS = Path("/proc/self/mountinfo")
_REMOTE = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
}  # fmt: skip
_REMOTE_FUSE = (
    "ceph",
    "davfs",
    "gcsfuse",
    "glusterfs",
    "goofys",
    "juicefs",
    "mfs",
    "rclone",
    "s3fs",
    "seaweedfs",
    "sshfs",
)


def require_local(file: Path) -> None:
    kind = file_system(file)
    if is_remote(kind):
        raise ConfigurationError(
            f"{file} is on a network file system ({kind}), where SQLite's locks do not hold between machines: "
            "put the file on a disk of this machine, or use PostgreSQL."
        )


def is_remote(kind: str) -> bool:
    return kind in _REMOTE or (kind.startswith("fuse.") and kind.removeprefix("fuse.").startswith(_REMOTE_FUSE))


def file_system(file: Path) -> str:
    """Returns the type of the file's file system, or "" if it is unknown.

    If several file systems are mounted at one directory, the one that was mounted last counts.
    """
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return ""
    real = os.path.realpath(file)
    found, longest = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])
        if len(point) >= longest and (real == point or real.startswith(point.rstrip("/") + "/")):
            found, longest = after.split()[0], len(point)
    return found

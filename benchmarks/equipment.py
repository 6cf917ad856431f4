"""The software that the peers need: Python packages in an environment of their own, and Debian's servers.

Packages are installed without starting their services. Software that cannot be installed is named with the
reason, and the run continues without it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".benchmarks"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")

LIBRARIES = {
    "tooz": ("tooz", "psycopg2-binary", "etcd3gw"),
    "redis": ("redis",),
    "kazoo": ("kazoo",),
    "python-dynamodb-lock": ("python-dynamodb-lock",),
}
ZOOKEEPER_JAR = Path("/usr/share/java/zookeeper.jar")
POLICY = Path("/usr/sbin/policy-rc.d")


@dataclass(frozen=True)
class Server:
    """A server's program and its Debian package."""

    package: str
    program: str

    @property
    def is_there(self) -> bool:
        return which(self.program) is not None and (self.package != "zookeeper" or ZOOKEEPER_JAR.exists())


SERVERS = {
    "redis": Server("redis-server", "redis-server"),
    "etcd": Server("etcd-server", "etcd"),
    "zookeeper": Server("zookeeper", "java"),
}


@dataclass
class Equipment:
    """The peers' Python, and the reasons why libraries or servers (by the names above) are missing."""

    python: Path
    missing: dict[str, str] = field(default_factory=dict)

    def lacks(self, *names: str) -> str | None:
        return next((self.missing[name] for name in names if name in self.missing), None)


def set_up() -> Equipment:
    """Install the software that is missing."""
    equipment = Equipment(CACHE / "venv" / "bin" / "python")
    _make_environment(equipment)
    _install_servers(equipment)
    return equipment


def which(program: str) -> str | None:
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _make_environment(equipment: Equipment) -> None:
    stamp = CACHE / "venv" / "installed"
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return
    shutil.rmtree(CACHE / "venv", ignore_errors=True)
    if complaint := _run(sys.executable, "-m", "venv", str(CACHE / "venv")):
        equipment.missing |= dict.fromkeys(LIBRARIES, complaint)
        return
    pip = (str(equipment.python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    for name, packages in LIBRARIES.items():
        if complaint := _run(*pip, "--constraint", str(REQUIREMENTS), *packages):
            equipment.missing[name] = f"pip install {packages[0]}: {complaint}"
    if not equipment.missing:
        stamp.write_text(digest)


def _install_servers(equipment: Equipment) -> None:
    missing = {name: server for name, server in SERVERS.items() if not server.is_there}
    complaint = _apt_install([server.package for server in missing.values()]) if missing else ""
    for name, server in missing.items():
        if not server.is_there:
            reason = f" ({complaint})" if complaint else ""
            equipment.missing[name] = f"not on this machine{reason}; Debian: apt-get install {server.package}"


def _apt_install(packages: list[str]) -> str:
    if os.geteuid() != 0 or not which("apt-get"):
        return ""
    apt = ("apt-get", "-o", "DPkg::Lock::Timeout=120")
    with _services_stay_down():
        return _run(*apt, "update", "-qq") or _run(
            *apt, "install", "-y", "-qq", "--no-install-recommends", *packages, DEBIAN_FRONTEND="noninteractive"
        )


@contextmanager
def _services_stay_down() -> Iterator[None]:
    """Debian runs this file to decide whether an installed service may start. An existing file is not changed."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def _run(*command: str, **environment: str) -> str:
    """Run the command. Returns an empty text if it succeeded, else the last line of its output."""
    ended = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    return "" if ended.returncode == 0 else (said[-1:] or [f"exit status {ended.returncode}"])[0]

"""Programs run by an ordinary user, not by root."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import asyncpg
import cryptography
import pytest

import interlock


def run_as_ordinary_user(program: str, *arguments: Path) -> str:
    """The output of the program, run by an ordinary user in an empty environment and without a home directory."""
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    packages = {str(Path(module.__file__ or "").parents[1]) for module in (interlock, cryptography, asyncpg)}
    done = subprocess.run(
        [_python_for_all(), "-c", program, *arguments],
        user=user.pw_uid if user else None,
        group=user.pw_gid if user else None,
        extra_groups=[] if user else None,
        env={"PYTHONPATH": os.pathsep.join(packages), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout or done.stderr


def _python_for_all() -> str:
    """A Python of the same version that every user may run; the tests' own may be in root's home."""
    version = "{}.{}".format(*sys.version_info)
    candidates = [f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"]
    found = sys.executable if os.geteuid() else next(filter(os.path.exists, candidates), None)
    return found or pytest.skip(f"there is no Python {version} that everybody may run")

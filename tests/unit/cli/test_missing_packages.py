"""Commands for a kind of database whose package is not installed name the package and how to install it."""

import subprocess
import sys

import pytest

TABLE = "dynamodb://leases?region=eu-west-1"
COMMANDS = [
    ("store", "check", TABLE),
    ("store", "create", TABLE),
    ("doctor", "--database", TABLE),
    ("lease", "list", "--database", TABLE),
    ("lock", "run", "--database", TABLE, "feeds", "--", "true"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_a_package_that_is_missing_is_named(command: tuple[str, ...]) -> None:
    hidden = f"import sys; sys.modules['aiobotocore'] = None; from interlock.cli import main; main({list(command)})"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=50, check=False)
    assert "pip install 'interlock[dynamodb]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 78

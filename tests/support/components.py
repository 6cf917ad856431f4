"""Programs that some tests need and a machine may lack.

If one is missing, the test is skipped with the reason. With INTERLOCK_TEST_REQUIRE_ALL set, as in CI, it fails.
"""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def required(program: str, *, package: str) -> Path:
    """The program's path; `package` is what to install for it."""
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        lacking(f"{program} is not on this machine (Debian: apt-get install {package})")
    return Path(found)


def lacking(missing: str) -> NoReturn:
    if os.environ.get("INTERLOCK_TEST_REQUIRE_ALL"):
        pytest.fail(missing)
    pytest.skip(missing)

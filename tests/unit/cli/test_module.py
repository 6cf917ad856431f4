"""``python -m interlock``, for use where the script is not on the PATH."""

import subprocess
import sys

from interlock import __version__


def test_the_command_line_is_a_module_too() -> None:
    told = subprocess.run([sys.executable, "-m", "interlock", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"interlock, version {__version__}\n"
    wrong = subprocess.run([sys.executable, "-m", "interlock", "nothing"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.splitlines()[0]) == (
        2,
        "Usage: python -m interlock [OPTIONS] COMMAND [ARGS]...",
    )

"""Who sits at this command line, for the record."""

import getpass
import os


def person() -> str:
    return f"{_name()}@{os.uname().nodename}"


def _name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"uid-{os.getuid()}"

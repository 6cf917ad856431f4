"""The lines that `interlock up` prints once it is ready, and at its stop."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from interlock.config import Settings
from interlock.server.database import ControlDatabase

_MOST_NAMES = 5


def ready_message(settings: Settings, database: ControlDatabase, url: str) -> str:
    """Returns the lines with the URL, the data directory and the database, without its password."""
    lines = {"Data": str(settings.data_dir.absolute()), "Database": database.shown}
    facts = [f"  {name:<8}  {value}" for name, value in lines.items()]
    hints = [f"            {hint}" for hint in _hints(settings)]
    return "\n".join([f"Interlock is ready at {url}", *facts, *hints, "  Stop      Ctrl-C"])


def still_running_message(instances: Sequence[str]) -> str:
    """Returns the message about the instances that go on without `interlock up`. `instances` must not be empty."""
    names = ", ".join(instances[:_MOST_NAMES])
    if len(instances) > _MOST_NAMES:
        names += f" and {len(instances) - _MOST_NAMES} more"
    goes = "1 instance goes on running" if len(instances) == 1 else f"{len(instances)} instances go on running"
    return (
        f"{goes}: {names}.\n"
        f"To stop one: start `interlock up` again, then run `{_command()} instance stop {instances[0]}`."
    )


def _hints(settings: Settings) -> list[str]:
    """Returns the lines that explain how commands and programs in another terminal find the database."""
    if settings.database_url:
        return ["Other commands find this database by --database or INTERLOCK_DATABASE_URL."]
    if directory := _data_dir_flag(settings):
        return [f"Other commands find this database by{directory}.", f"Programs:  {env_command(settings)}"]
    return [
        "Other commands, and Interlock() in Python, find this database by themselves.",
        f"Other programs:  {env_command(settings)}",
    ]


def env_command(settings: Settings) -> str:
    """The shell command that sets the URL of the embedded database; empty for a named database."""
    return "" if settings.database_url else f'eval "$({_command()} env{_data_dir_flag(settings)})"'


def _data_dir_flag(settings: Settings) -> str:
    if settings.data_dir == Settings().data_dir:
        return ""
    return f" --data-dir {shlex.quote(str(settings.data_dir.absolute()))}"


def _command() -> str:
    """Returns the command `interlock` for a shell in this directory: a checkout's script is not on the PATH."""
    script = Path(sys.argv[0]).absolute()
    if script.name != "interlock":
        return f"{shlex.quote(sys.executable)} -m interlock"
    if shutil.which("interlock") == str(script):
        return "interlock"
    here = Path.cwd()
    return shlex.quote(str(script.relative_to(here) if script.is_relative_to(here) else script))

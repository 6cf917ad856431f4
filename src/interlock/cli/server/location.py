"""Which control plane a command talks to, and the key that it is shown.

A key goes to the server that it is meant for and to nobody else. One that is set beside the name of a server goes to
that one. The one in the data directory goes to the servers that are listed there, while they live, which is to say
while they hold the lock of their file: what a killed server leaves behind still names its port, on which another
program may listen by now.
"""

import fcntl
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from interlock.config import Settings
from interlock.errors import ConfigurationError, KeyRefused, ServerUnreachable


class Whereabouts(NamedTuple):
    """`addresses` are asked for anew before each attempt: a server that comes back may listen elsewhere."""

    addresses: Callable[[], Sequence[str]]
    key: str


def whereabouts(flags: dict[str, Any], *, config: Path | None = None) -> Whereabouts:
    """A flag beats the environment: with --server, a key goes along only if it was not set for another server; with
    --data-dir, the servers that run there are meant, whatever the environment says.
    """
    settings = Settings.load(flags, file=config)
    server, key = settings.server, settings.api_key
    if flags.get("server"):
        usual = Settings.load({}, file=config).server
        key = key if usual is None or _tidy(usual) == _tidy(flags["server"]) else None
    elif flags.get("data_dir"):
        server = key = None
    if key is not None and not _could_be_key(key):
        raise ConfigurationError("api_key holds characters that no key has: set INTERLOCK_API_KEY to the key alone.")
    if server:
        return _named(_tidy(server), key, settings.data_dir)
    return Whereabouts(lambda: running(settings.data_dir), key or _key_in(settings.data_dir))


def running(data_dir: Path) -> list[str]:
    """Where the servers of that directory listen, those that started last first. Raises KeyRefused if it is closed."""
    directory = data_dir / "servers"
    try:
        found = [file for file in directory.iterdir() if file.suffix == ".json"]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _closed(directory, error) from error
    return [url for url in map(_url_in, sorted(found, key=_started_at, reverse=True)) if url]


def _named(server: str, key: str | None, data_dir: Path) -> Whereabouts:
    if key is None:
        if not _runs_here(server, data_dir):
            raise ConfigurationError(
                f"There is no key for {server}: set INTERLOCK_API_KEY; `interlock key create` makes one, "
                "on the machine of the server."
            )
        key = _key_in(data_dir)
    return Whereabouts(lambda: [server], key)


def _runs_here(server: str, data_dir: Path) -> bool:
    try:
        return server in running(data_dir)
    except KeyRefused:  # then its key is closed to us too
        return False


def _key_in(data_dir: Path) -> str:
    path = data_dir / "api-key"
    try:
        key = _private_text(path).strip()
    except FileNotFoundError:
        raise ServerUnreachable(
            f"No control plane has come up on {data_dir} yet: run `interlock up`, or name one that runs elsewhere "
            "with INTERLOCK_SERVER and INTERLOCK_API_KEY."
        ) from None
    except OSError as error:
        raise _closed(path, error) from error
    if not _could_be_key(key):
        raise KeyRefused(f"There is no key in {path}: remove it, and the next `interlock up` makes another.")
    return key


def _closed(path: Path, error: OSError) -> KeyRefused:
    return KeyRefused(
        f"{path} cannot be read ({error.strerror}): use the account that runs `interlock up`, "
        "or set INTERLOCK_SERVER and INTERLOCK_API_KEY."
    )


def _could_be_key(text: str) -> bool:
    """What could not is not sent: a line in it would be a header of its own."""
    return text != "" and text.isascii() and text.isprintable()


def _private_text(path: Path, *, of_the_living: bool = False) -> str:
    """Raises KeyRefused if others can use it too; `of_the_living`: and ValueError if no process holds it."""
    with path.open(encoding="utf-8", errors="replace") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise KeyRefused(
                f"Others than its owner may use {path}: chmod 600 {path}. If somebody has read it, remove it, revoke "
                "the key in it (`interlock key list`), and start `interlock up` anew."
            )
        if of_the_living and _is_free(file.fileno()):
            raise ValueError(path)
        return file.read()


def _is_free(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _url_in(path: Path) -> str | None:
    try:
        return _tidy(json.loads(_private_text(path, of_the_living=True))["url"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, KeyRefused):  # gone, or no server's
        return None


def _started_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _tidy(url: str) -> str:
    return url.rstrip("/")

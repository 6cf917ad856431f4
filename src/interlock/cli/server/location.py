"""The control plane that a command talks to, and the key that is sent to it.

A key is sent only to the server that it is meant for. If the settings name a key and a server, the key is sent to that
server. The key in the data directory is sent to the servers that are listed in that directory, as long as they live,
that is, as long as they hold the lock of their file: the file of a killed server still names its port, on which
another program may listen.
"""

import fcntl
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from interlock.config import Settings
from interlock.errors import ConfigurationError, KeyRefused, ServerUnreachable


class ServerLocation(NamedTuple):
    """The server's addresses and key. Call `addresses` for each attempt: a restarted server may have a new address."""

    addresses: Callable[[], Sequence[str]]
    key: str


def locate_server(flags: dict[str, Any], *, config: Path | None = None) -> ServerLocation:
    """Returns the server that flags, environment and configuration file name.

    A flag wins over the environment. With --server, the environment's key is used only if it was not set for another
    server. With --data-dir, the server is one that runs on that directory, even if the environment names another.
    """
    settings = Settings.load(flags, file=config)
    server, key = settings.server, settings.api_key
    if flags.get("server"):
        usual = Settings.load({}, file=config).server
        key = key if usual is None or _without_slash(usual) == _without_slash(flags["server"]) else None
    elif flags.get("data_dir"):
        server = key = None
    if key is not None and not _could_be_key(key):
        raise ConfigurationError(
            "api_key holds characters that no key has: set INTERLOCK_API_KEY to the key and nothing else."
        )
    if server:
        return _named(_without_slash(server), key, settings.data_dir)
    return ServerLocation(lambda: running_servers(settings.data_dir), key or _key_in(settings.data_dir))


def running_servers(data_dir: Path) -> list[str]:
    """Returns the URLs of the running servers that `data_dir` lists, the last started first.

    Raises KeyRefused if the directory cannot be read.
    """
    directory = data_dir / "servers"
    try:
        found = [file for file in directory.iterdir() if file.suffix == ".json"]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(directory, error) from error
    return [url for url in map(_url_in, sorted(found, key=_started_at, reverse=True)) if url]


def _named(server: str, key: str | None, data_dir: Path) -> ServerLocation:
    if key is None:
        if not _runs_here(server, data_dir):
            raise ConfigurationError(
                f"There is no key for {server}: create one with `interlock key create` on the server's machine, and "
                "set INTERLOCK_API_KEY to it."
            )
        key = _key_in(data_dir)
    return ServerLocation(lambda: [server], key)


def _runs_here(server: str, data_dir: Path) -> bool:
    try:
        return server in running_servers(data_dir)
    except KeyRefused:  # then the key cannot be read either
        return False


def _key_in(data_dir: Path) -> str:
    path = data_dir / "api-key"
    try:
        key = _private_text(path).strip()
    except FileNotFoundError:
        raise ServerUnreachable(
            f"No control plane has run on {data_dir} yet: start `interlock up`, or set INTERLOCK_SERVER and "
            "INTERLOCK_API_KEY to use another control plane."
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from error
    if not _could_be_key(key):
        raise KeyRefused(f"There is no key in {path}: remove that file, and restart `interlock up` to make a key.")
    return key


def _unreadable(path: Path, error: OSError) -> KeyRefused:
    return KeyRefused(
        f"{path} cannot be read ({error.strerror}): use the account that runs `interlock up`, "
        "or set INTERLOCK_SERVER and INTERLOCK_API_KEY."
    )


def _could_be_key(text: str) -> bool:
    """False for text that must not be sent as a key: a line break in the text would begin another header."""
    return text != "" and text.isascii() and text.isprintable()


def _private_text(path: Path, *, locked: bool = False) -> str:
    """Returns the text of the file. Raises KeyRefused if other users may use it.

    With `locked`, raises ValueError if no process holds the file's lock.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise KeyRefused(
                f"Users other than its owner may use {path}: run `chmod 600 {path}`. If one of them may have read the "
                "key, remove the file, revoke the key (`interlock key list`), and restart `interlock up`."
            )
        if locked and _is_free(file.fileno()):
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
        return _without_slash(json.loads(_private_text(path, locked=True))["url"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, KeyRefused):  # gone, or not a server's file
        return None


def _started_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _without_slash(url: str) -> str:
    return url.rstrip("/")

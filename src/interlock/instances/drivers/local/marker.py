"""The marker: a file in an instance's directory that describes the instance. It holds no secret."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from interlock.embedded.accounts import ourselves
from interlock.embedded.files import write_whole
from interlock.errors import ForeignResource
from interlock.instances.drivers.local.directory import Directory, directories


@dataclass(frozen=True)
class Marker:
    """`is_whole` is True from the time when the owner can log in until the removal begins."""

    id: str
    name: str
    port: int
    major: int
    parameters: Mapping[str, str] = field(default_factory=dict)
    dns_name: str | None = None
    is_whole: bool = False

    def write(self, directory: Directory) -> Self:
        write_whole(directory.marker, json.dumps(asdict(self), indent=1).encode(), ourselves())
        return self


def read_marker(directory: Directory) -> Marker | None:
    """Returns the marker; None if there is none. Raises ForeignResource for a marker of something else."""
    try:
        marker = Marker(**json.loads(directory.marker.read_bytes()))
        if marker.id == directory.id:
            return marker
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        pass
    raise ForeignResource(
        f"{directory.marker} does not describe instance {directory.id}: move {directory.path} away, or give instances "
        "another directory."
    )


def markers(root: Path) -> dict[str, Marker | None]:
    """Returns the markers of all directories of instances, by id; None for a directory without a marker."""
    found: dict[str, Marker | None] = {}
    for directory in directories(root):
        try:
            found[directory.id] = read_marker(directory)
        except ForeignResource:
            continue
    return found

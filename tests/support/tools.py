"""A migration tool of the ecosystem as real processes, in a project directory made for the test."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from support.programs import environment

_EACH = """
import json, sys
{imports}
for arguments in json.loads(sys.argv[1]):
    try:
        status = {call}
    except SystemExit as end:
        status = end.code
    print(f"<{{status or 0}}>")
"""


class ToolProject:
    """`module` is what ``python -m`` runs; `imports` and `call` run the tool with `arguments` in a process at hand."""

    module: ClassVar[str]
    imports: ClassVar[str]
    call: ClassVar[str]
    variables: ClassVar[dict[str, str]] = {}

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def started(self, *args: str, program: Sequence[str] = ()) -> "Iterator[subprocess.Popen[str]]":
        process = subprocess.Popen(
            [sys.executable, "-u", "-W", "error", *(program or ("-m", self.module)), *args],
            cwd=self.path,
            env=environment(**self.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def run(self, *args: str) -> tuple[int, str]:
        """Run the tool. Returns its exit status and whole output."""
        with self.started(*args) as process:
            return ended(process)

    def each(self, *commands: str) -> list[tuple[int, str]]:
        """Like `run` for several commands in one process, because starting a process takes longer than the test."""
        arguments = json.dumps([command.split() for command in commands])
        code = _EACH.format(imports=self.imports, call=self.call)
        with self.started(arguments, program=("-c", code)) as process:
            status, output = ended(process)
        assert status == 0, output
        said = re.split(r"<(-?\d+)>\n", output)
        return [(int(status), text) for text, status in zip(said[::2], said[1::2], strict=False)]


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = process.communicate(timeout=50)
    return process.returncode, output

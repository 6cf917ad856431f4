"""Output on terminals: rewritten lines and messages beside them, colours, characters that a terminal cannot show."""

import io
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.cli import main
from interlock.cli.gate_presentation import gate_as_text
from interlock.cli.record.progress import ProgressLines
from interlock.cli.terminal import print_aside
from interlock.gate.status import GateStatus
from interlock.stores.postgres import AdvisoryKey

FULL = Path("/dev/full")
MOMENT = datetime(2031, 1, 1, tzinfo=UTC)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_message_replaces_the_line_that_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    print_aside("Waiting.")
    assert terminal.getvalue() == "\r\x1b[Kinterlock: Waiting.\n"
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    print_aside("Waiting.")
    assert pipe.getvalue() == "interlock: Waiting.\n"


def test_progress_without_a_standard_error_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    print_aside("Waiting.")
    with ProgressLines() as progress:
        progress.show("mydb", "checked")


def test_no_colour_leaves_out_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["doctor", "--database", f"sqlite:///{tmp_path}/leases.db"]
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in CliRunner().invoke(main, command, color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in CliRunner().invoke(main, command, color=True).stdout


def test_a_character_that_the_encoding_lacks_is_escaped(tmp_path: Path) -> None:
    command = ["doctor", "--database", f"sqlite:///{tmp_path}/nowhere→/leases.db"]
    done = CliRunner(charset="latin-1").invoke(main, command)
    assert "nowhere\\u2192 does not exist" in done.stdout


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    command = [sys.executable, "-c", "from interlock.cli import main; main()", "schema", "print"]
    with FULL.open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "interlock: The output cannot be written: No space left on device. Make room on the disk.\n"
    assert (done.returncode, done.stderr) == (74, said)


def test_control_characters_in_a_migrations_report_are_escaped() -> None:
    run = {"fence": 1, "replica": "web-1", "host": "web", "version": None, "started_at": MOMENT, "ended_at": MOMENT}
    told = {"heartbeat_at": MOMENT, "step": "\x1b[2Jall is well", "outcome": "failed", "error": "no\nroom"}
    said = gate_as_text(GateStatus("shop", AdvisoryKey(1, 2), run | told, None, ()))
    assert "\x1b" not in said
    assert "  step: \\u001b[2Jall is well\n" in said
    assert "  error: no\\nroom" in said

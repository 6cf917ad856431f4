"""The domain of docs/how-to/new-domain.md runs as it is printed there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.postgres import execute
from support.programs import environment

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "new-domain.md").read_text(encoding="utf-8")
SAID = """\
write requested by key:ann
written by interlock: 8 characters
finish by interlock
delete requested by interlock
removed by interlock
vanish by interlock
"""
TRIGGERS = """
from reports.model import Reports
print(Reports("interlock").machine.install_sql("interlock.state_machine_v1"))
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with the package of the page."""
    for file, content in re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(content, encoding="utf-8")
    (tmp_path / "files").mkdir()
    return tmp_path


def run(url: str, directory: Path, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, env=environment(url), cwd=directory, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_domain_of_the_page_works(interlock_url: str, directory: Path) -> None:
    [table] = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    execute(interlock_url, table)
    execute(interlock_url, run(interlock_url, directory, "-c", TRIGGERS))
    assert run(interlock_url, directory, "-m", "reports", "files") == SAID
    assert list((directory / "files").iterdir()) == []
    [[state, working, size]] = execute(interlock_url, "SELECT state, working, size_bytes FROM interlock.report")
    assert (state, working, size) == ("deleted", False, 8)

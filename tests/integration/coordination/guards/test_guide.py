"""The examples of the guide to the guard run as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.components import required
from support.postgres import execute
from support.programs import environment

GUIDE = (Path(__file__).parents[4] / "docs" / "how-to" / "guard.md").read_text()
FIRST, PREAMBLE, *EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
PSQL, PROTECTION = re.findall(r"```sql\n(.*?)```", GUIDE, re.DOTALL)

DJANGO = """
import django
from django.conf import settings
from urllib.parse import unquote, urlsplit
at = urlsplit(url)
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "HOST": at.hostname, "PORT": at.port, "NAME": at.path[1:],
    "USER": at.username, "PASSWORD": unquote(at.password),
}})
django.setup()
"""


@pytest.fixture
def url(interlock_url: str) -> str:
    execute(interlock_url, "CREATE TABLE orders AS SELECT 'paid' AS state")
    return interlock_url


def states(url: str) -> list[str]:
    return [state for (state,) in execute(url, "SELECT state FROM orders")]


@pytest.mark.exhaustive(beyond=3)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda code: re.findall(r"(?:import|from) ([a-z]+)", code)[0])
def test_the_examples_run(url: str, example: str) -> None:
    setting = DJANGO if "django" in example else ""
    code = PREAMBLE + setting + example
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, env=environment(url), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert states(url) == ["shipped"]
    assert FIRST.split("(")[0] in example


def test_the_examples_for_other_languages_run(url: str) -> None:
    psql = [str(required("psql", package="postgresql-client")), "-X", "-v", "ON_ERROR_STOP=1", url]
    done = subprocess.run(psql, input=PSQL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "released" in done.stdout
    assert states(url) == ["shipped"]


@pytest.mark.parametrize("example", EXAMPLES[:1])
def test_the_examples_that_protect_a_table_run(url: str, example: str) -> None:
    execute(url, PROTECTION)
    unguarded = re.sub(r" *grant\.guard\(.*\n", "", example)
    for code, guarded in ((unguarded, False), (example, True)):
        run = [sys.executable, "-c", PREAMBLE + code]
        done = subprocess.run(run, env=environment(url), capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is guarded
        assert ("may only be written under the lease 'shipping'" in done.stderr) is not guarded

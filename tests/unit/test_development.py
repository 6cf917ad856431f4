"""The environments that dev.py sets up have every package that README's examples import."""

import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("for_tests", [False, True])
def test_every_environment_can_run_the_examples_of_the_readme(for_tests: bool) -> None:
    extras = runpy.run_path(str(ROOT / "dev.py"))["extras"](for_tests=for_tests).split(",")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) <= declared.keys()
    needed = " ".join(requirement for extra in extras for requirement in declared[extra])
    assert "psycopg[binary]" in needed
    assert "interlock[cron]" in needed

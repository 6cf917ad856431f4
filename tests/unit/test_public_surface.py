"""What `import interlock` offers, and what it does not drag in."""

import inspect
import subprocess
import sys
from importlib import metadata

import pytest

import interlock

HEAVY = [
    "aiobotocore",
    "asyncpg",
    "botocore",
    "cryptography",
    "dns",
    "duroxide",
    "fastapi",
    "httpx2",
    "jinja2",
    "lightkube",
    "pydantic",
    "starlette",
    "uvicorn",
]


@pytest.mark.parametrize("name", interlock.__all__)
def test_everything_that_is_announced_is_there_and_is_a_class(name: str) -> None:
    assert inspect.isclass(getattr(interlock, name))
    assert getattr(interlock, name).__name__ == name


def test_a_star_import_brings_what_is_announced_and_nothing_else() -> None:
    namespace: dict[str, object] = {}
    exec("from interlock import *", namespace)  # noqa: S102
    assert sorted(namespace.keys() - {"__builtins__"}) == sorted(interlock.__all__)


def test_nothing_else_is_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Lock'"):
        _ = interlock.Lock
    modules = {name for name, value in vars(interlock).items() if inspect.ismodule(value)}
    public = {name for name in vars(interlock) if not name.startswith("_")} - modules
    assert public - set(interlock.__all__) == {"Any", "TYPE_CHECKING", "import_module"}


def test_the_version_is_the_packages() -> None:
    assert interlock.__version__ == metadata.version("interlock")


@pytest.mark.parametrize(
    "module",
    [
        "interlock",
        "interlock.cli",
        "interlock.cli.instance.creation",
        "interlock.cli.server.client",
        "interlock.config",
        "interlock.errors",
    ],
)
def test_a_start_is_not_slowed_down_by_what_it_may_not_need(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert module in loaded
    assert not set(HEAVY) & set(loaded)

"""The public names of `interlock`, and the modules that its import does not load."""

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
def test_every_public_name_exists_and_is_a_class(name: str) -> None:
    assert inspect.isclass(getattr(interlock, name))
    assert getattr(interlock, name).__name__ == name


def test_a_star_import_brings_exactly_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from interlock import *", namespace)  # noqa: S102
    assert sorted(namespace.keys() - {"__builtins__"}) == sorted(interlock.__all__)


def test_there_are_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Lock'"):
        _ = interlock.Lock
    modules = {name for name, value in vars(interlock).items() if inspect.ismodule(value)}
    public = {name for name in vars(interlock) if not name.startswith("_")} - modules
    assert public - set(interlock.__all__) == {"Any", "TYPE_CHECKING", "import_module"}


def test_the_version_is_that_of_the_package() -> None:
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
def test_the_import_does_not_load_optional_modules(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert module in loaded
    assert not set(HEAVY) & set(loaded)

"""The tree of errors is as its docstring draws it, and each error has an exit status."""

import inspect
import os
import re

import pytest

from interlock import errors
from interlock.errors import InterlockError


def real_tree() -> dict[str, str]:
    """The parent of each class."""
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, InterlockError)]
    assert all(len(kind.__bases__) == 1 for kind in found)
    return {kind.__name__: kind.__bases__[0].__name__ for kind in found}


def drawn_tree() -> dict[str, str]:
    """The same, read from the docstring; four characters of indentation are one level."""
    assert errors.__doc__ is not None
    tree = {}
    path: list[str] = ["Exception"]
    for line in errors.__doc__.splitlines():
        if match := re.match(r"    ((?:[│ ]   )*(?:[├└]── )?)([A-Z]\w+)(  |$)", line):
            depth = len(match[1]) // 4
            path[depth + 1 :] = [match[2]]
            tree[match[2]] = path[depth]
    return tree


def all_errors() -> list[type[InterlockError]]:
    return [getattr(errors, name) for name in real_tree()]


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert drawn_tree() == real_tree()


@pytest.mark.parametrize("kind", all_errors())
def test_every_error_has_an_exit_status_of_sysexits_or_of_the_shell(kind: type[InterlockError]) -> None:
    not_executable, not_found = 126, 127
    assert os.EX_USAGE <= kind.exit_status <= os.EX_CONFIG or kind.exit_status in (not_executable, not_found)


def test_the_exit_statuses_are_those_of_the_system() -> None:
    ours = {name: value for name, value in vars(errors).items() if name.startswith("EX_")}
    assert ours
    assert ours == {name: getattr(os, name) for name in ours}


@pytest.mark.parametrize("kind", all_errors())
def test_an_error_prints_as_its_message_and_keeps_its_arguments(kind: type[InterlockError]) -> None:
    wanted = inspect.signature(kind.__init__).parameters.values()
    given = {one.name: ("something",) for one in wanted if one.kind is one.KEYWORD_ONLY}
    error = kind("It broke: mend it.", **given)
    assert str(error) == "It broke: mend it."
    assert {name: getattr(error, name) for name in given} == given

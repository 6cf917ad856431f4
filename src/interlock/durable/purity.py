"""What must not stand in an orchestration, because the engine runs it from the start again at every turn.

At the end of each turn the coroutine is thrown away where it waits. So `finally:` and `with` blocks run every time and
not at the end, and an `except:` that catches everything keeps it from ending. It is said when it is declared, not when
it has gone wrong.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from interlock.errors import ConfigurationError

_INSTEAD = "put what has to be cleaned up into an orchestration of its own, and name that as cleanup="


def check(function: Callable[..., Any]) -> None:
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):  # written at a prompt: nobody can look
        return
    for line, found in sorted(_found(ast.parse(source))):
        raise ConfigurationError(
            f"The orchestration {function.__qualname__} has {found} (line {line} of it), which would run at every "
            f"turn: {_INSTEAD}."
        )


def _found(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Try(finalbody=[_, *_]) | ast.TryStar(finalbody=[_, *_]):
                yield node.lineno, "a `finally:` block"
            case ast.With() | ast.AsyncWith():
                yield node.lineno, "a `with` block"
            case ast.ExceptHandler(type=None) | ast.ExceptHandler(type=ast.Name(id="BaseException" | "GeneratorExit")):
                yield node.lineno, "an `except` that catches its own end"

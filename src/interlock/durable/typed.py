"""Typed values as JSON: inputs and results are checked on both sides of the engine."""

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from interlock.errors import ConfigurationError, DoNotRetry

T = TypeVar("T")


class Typed(Generic[T]):
    """Converts values of one type to JSON types and back. `what` names the value in messages."""

    def __init__(self, kind: Any, what: str) -> None:
        self._what = what
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(kind)
        except PydanticSchemaGenerationError as error:
            raise ConfigurationError(
                f"{what} has the type {kind}, which JSON cannot hold: use a dataclass, a pydantic model, or plain "
                "types."
            ) from error

    def dump(self, value: T) -> Any:
        """Returns the value in plain JSON types. Raises `DoNotRetry` if the value does not match the type."""
        try:
            checked = self._adapter.validate_python(value)
            return self._adapter.dump_python(checked, mode="json")
        except ValidationError as error:
            raise self._refused(error) from None

    def load(self, plain: Any) -> T:
        try:
            return self._adapter.validate_python(plain, strict=False)
        except ValidationError as error:
            raise self._refused(error) from None

    def _refused(self, error: ValidationError) -> DoNotRetry:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return DoNotRetry(
            f"{self._what} does not match its type ({place + ': ' if place else ''}{first['msg']}): correct it.",
            code="invalid_value",
        )


def types_of(function: Callable[..., Any], kind: str) -> tuple[Typed[Any], Typed[Any]]:
    """Returns the types of input and result, from the annotations of the function."""
    parameters = list(inspect.signature(function).parameters)
    hints = get_type_hints(function)
    if len(parameters) != 2 or parameters[1] not in hints or "return" not in hints:
        raise ConfigurationError(
            f"The {kind} {function.__qualname__} has to take two arguments: annotate the second argument and the "
            "result."
        )
    name = function.__qualname__
    return Typed(hints[parameters[1]], f"The input of {name}"), Typed(hints["return"], f"The result of {name}")

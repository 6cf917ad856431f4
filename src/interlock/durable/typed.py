"""Values with a type, and JSON: what an activity takes and gives is checked on both sides of the engine."""

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from interlock.errors import ConfigurationError, DoNotRetry

T = TypeVar("T")


class Typed(Generic[T]):
    """One type. `what` names the value in messages."""

    def __init__(self, kind: Any, what: str) -> None:
        self._what = what
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(kind)
        except PydanticSchemaGenerationError as error:
            raise ConfigurationError(
                f"{what} is a {kind}, of which JSON knows nothing: use a dataclass, a pydantic model, or plain types."
            ) from error

    def dump(self, value: T) -> Any:
        """As JSON has it, once it is known to be of the type."""
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
            f"{self._what} is not what it should be: {place + ': ' if place else ''}{first['msg']}.",
            code="invalid_value",
        )


def types_of(function: Callable[..., Any], kind: str) -> tuple[Typed[Any], Typed[Any]]:
    """What goes in and what comes out, by the function's own annotations."""
    parameters = list(inspect.signature(function).parameters)
    hints = get_type_hints(function)
    if len(parameters) != 2 or parameters[1] not in hints or "return" not in hints:
        raise ConfigurationError(
            f"The {kind} {function.__qualname__} has to take two arguments and say the type of the second and of what "
            "it returns."
        )
    name = function.__qualname__
    return Typed(hints[parameters[1]], f"The input of {name}"), Typed(hints["return"], f"The result of {name}")

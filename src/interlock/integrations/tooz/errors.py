"""The translation of Interlock's errors into tooz's."""

from collections.abc import Iterator
from contextlib import contextmanager

import tooz
from tooz.coordination import ToozConnectionError

from interlock import errors


@contextmanager
def translated() -> Iterator[None]:
    """Turns an error of Interlock into tooz's error with the same message; Interlock's error is the `__cause__`."""
    try:
        yield
    except (errors.DatabaseUnreachable, errors.AccessDenied, errors.ConnectionLost) as error:
        raise ToozConnectionError(str(error)) from error
    except errors.InterlockError as error:
        raise tooz.ToozError(str(error)) from error

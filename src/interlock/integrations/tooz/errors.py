"""Interlock's errors as tooz's."""

from collections.abc import Iterator
from contextlib import contextmanager

import tooz
from tooz.coordination import ToozConnectionError

from interlock import errors


@contextmanager
def translated() -> Iterator[None]:
    """The sentence stays the same, and the error is the cause."""
    try:
        yield
    except (errors.DatabaseUnreachable, errors.AccessDenied, errors.ConnectionLost) as error:
        raise ToozConnectionError(str(error)) from error
    except errors.InterlockError as error:
        raise tooz.ToozError(str(error)) from error

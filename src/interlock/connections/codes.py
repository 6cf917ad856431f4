"""The server's code of an error. Every driver wraps it in errors of its own, and all keep the code."""


def code_of(error: BaseException | None) -> str | None:
    """SQLAlchemy has the driver's error in `orig`, Django raises its own from it."""
    while error is not None:
        for attribute in ("sqlstate", "pgcode"):
            if isinstance(code := getattr(error, attribute, None), str):
                return code
        error = getattr(error, "orig", None) or error.__cause__
    return None

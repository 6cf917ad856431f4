"""The steps that verbs consist of, told to the log as each is done: a crash may come after any of them."""

from interlock.logs import events

log = events(__name__)


def did(id: str, step: str) -> None:
    log.debug("instance.step", extra={"id": id, "step": step})

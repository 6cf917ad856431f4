"""What a gate is called, and the lock keys that follow from it."""

from dataclasses import dataclass

from interlock.errors import ConfigurationError
from interlock.stores.postgres import AdvisoryKey

PRESENT = AdvisoryKey.of("interlock gate session")
"""Held, shared, by every session of any gate, so that it is not taken for a session that migrates."""


@dataclass(frozen=True)
class GateName:
    """Database, schema and, where several applications share a schema, the application.

    Unrelated schemas and applications never wait for each other.
    """

    database: str
    schema: str
    app: str | None = None

    def __post_init__(self) -> None:
        for part in (self.database, self.schema, self.app):
            if part is not None and (not part or "/" in part):
                raise ConfigurationError(f"{part!r} cannot be part of a gate's name: it is empty, or has a / in it.")
        try:
            str(self).encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"{str(self)!r} cannot be a gate's name: it is no text.") from error

    def __str__(self) -> str:
        return "/".join(part for part in (self.database, self.schema, self.app) if part)

    @property
    def lock(self) -> AdvisoryKey:
        """Held by whoever migrates."""
        return AdvisoryKey.of("interlock gate", self.database, self.schema, self.app or "")

    @property
    def waiting(self) -> AdvisoryKey:
        """Held, shared, by everybody who waits: so their sessions are known, and gone when they are."""
        return AdvisoryKey.of("interlock gate waiting", self.database, self.schema, self.app or "")

    def alive(self, fence: int) -> AdvisoryKey:
        """Held by the process that migrates, on a session beside the lock's: so a successor sees that it still lives,
        even when the lock's own session was ended without the process hearing of it."""
        return AdvisoryKey.of("interlock gate alive", self.database, self.schema, self.app or "", str(fence))

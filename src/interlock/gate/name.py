"""The name of a gate, and its lock keys."""

from dataclasses import dataclass

from interlock.errors import ConfigurationError
from interlock.stores.postgres import AdvisoryKey

PRESENT = AdvisoryKey.of("interlock gate session")
"""Held, shared, by every session of any gate, so that it is not mistaken for a session of the migration."""


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
                raise ConfigurationError(f"{part!r} cannot be part of a gate's name: it is empty or contains a /.")
        try:
            str(self).encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"{str(self)!r} cannot be a gate's name: it is not valid Unicode.") from error

    def __str__(self) -> str:
        return "/".join(part for part in (self.database, self.schema, self.app) if part)

    @property
    def lock(self) -> AdvisoryKey:
        """Held by the replica that migrates."""
        return AdvisoryKey.of("interlock gate", self.database, self.schema, self.app or "")

    @property
    def waiting(self) -> AdvisoryKey:
        """Held, shared, by every waiter: so the waiting sessions are known, and the key ends with the session."""
        return AdvisoryKey.of("interlock gate waiting", self.database, self.schema, self.app or "")

    def alive(self, fence: int) -> AdvisoryKey:
        """Held by the process that migrates, on a second session. A successor sees by it that the process still lives,
        even if the server ended the lock's session and the process has not noticed yet."""
        return AdvisoryKey.of("interlock gate alive", self.database, self.schema, self.app or "", str(fence))

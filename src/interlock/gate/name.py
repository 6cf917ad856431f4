"""The name of a gate, and its lock keys."""

from dataclasses import dataclass

from interlock.errors import ConfigurationError
from interlock.stores.postgres import AdvisoryKey

PRESENT = AdvisoryKey.of("interlock gate session")
"""Every session of any gate holds this key, shared, so that a successor does not take it for one of a migration."""


@dataclass(frozen=True)
class GateName:
    """The parts of a gate's name: database, schema and, if several applications share the schema, the application.

    Unrelated schemas and applications never wait for each other.
    """

    database: str
    schema: str
    app: str | None = None

    def __post_init__(self) -> None:
        for part in (self.database, self.schema, self.app):
            if part is not None and (not part or "/" in part):
                raise ConfigurationError(
                    f"{part!r} cannot be part of a gate's name: it is empty or contains a /. Use another name."
                )
        try:
            str(self).encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"{str(self)!r} cannot be a gate's name: it is not valid Unicode. Use another."
            ) from error

    def __str__(self) -> str:
        return "/".join(part for part in (self.database, self.schema, self.app) if part)

    @property
    def lock(self) -> AdvisoryKey:
        """The key that the migrating replica holds."""
        return AdvisoryKey.of("interlock gate", self.database, self.schema, self.app or "")

    @property
    def waiting(self) -> AdvisoryKey:
        """The key that every waiter holds, shared. It shows which sessions wait, because it ends with its session."""
        return AdvisoryKey.of("interlock gate waiting", self.database, self.schema, self.app or "")

    def alive(self, fence: int) -> AdvisoryKey:
        """The key that the migrating process holds on its second session. It shows a successor that the process lives,
        even if the server ended the lock's session and the process has not noticed yet."""
        return AdvisoryKey.of("interlock gate alive", self.database, self.schema, self.app or "", str(fence))

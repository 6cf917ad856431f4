"""What whoever typed `interlock up` reads when it is up."""

from interlock.config import Settings
from interlock.server.database import ControlDatabase


def announcement(settings: Settings, database: ControlDatabase, url: str) -> str:
    """A few lines without a password."""
    return "\n".join(
        (
            f"Interlock is ready at {url}",
            f"  Database  {database.shown}",
            f"            Other commands find it {_how_found(settings)}.",
            "  Stop      Ctrl-C",
        )
    )


def _how_found(settings: Settings) -> str:
    if settings.database_url:
        return "by --database or INTERLOCK_DATABASE_URL"
    if settings.data_dir == Settings().data_dir:
        return "by themselves"
    return f"by --data-dir {settings.data_dir.absolute()}"

"""The home page: the status of this replica and the facts about it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Request, Response
from fastapi.templating import Jinja2Templates

from interlock import __version__
from interlock.identity import replica_id
from interlock.server.readiness import Readiness
from interlock.server.startup import Phase, Startup

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class PageStatus:
    """The replica's status as the page shows it; `state` selects the colour."""

    state: Literal["starting", "ready", "trouble"]
    headline: str
    explanation: str


_STATUSES: dict[Phase, PageStatus] = {
    "database": PageStatus("starting", "Starting the database", "The first start takes a few seconds."),
    "checking": PageStatus("starting", "Checking the schema", "The tables have to be those of this release."),
    "waiting": PageStatus(
        "starting",
        "Waiting at the gate",
        "Another replica is migrating; this replica continues when the migration is done.",
    ),
    "settling": PageStatus(
        "starting",
        "Waiting for old sessions",
        "A replica died while it migrated; its database sessions have to end first.",
    ),
    "migrating": PageStatus("starting", "Migrating", "This replica is bringing the tables up to date."),
    "joining": PageStatus("starting", "Joining", "This replica is about to take part in the work on instances."),
    "ready": PageStatus("ready", "Ready", "This replica is up, and its database answers."),
}


def page_status(phase: Phase, problem: str | None) -> PageStatus:
    if phase == "ready" and problem:
        return PageStatus("trouble", "The database does not answer", problem)
    return _STATUSES[phase]


def facts(startup: Startup, database: str, env_command: str = "") -> dict[str, str]:
    """Returns the facts in the order of the page. The page shows `database` unchanged, so `database` must not contain
    a password."""
    status = startup.schema_status
    schema = f"{status.schema}, version {startup.schema_version}, {status.state}" if status else "not known yet"
    return {
        "Replica": replica_id(),
        "Version": __version__,
        "Up for": duration_text(startup.uptime),
        "Database": database,
        **({"Its URL in a shell": env_command} if env_command else {}),
        "Schema": schema,
    }


def duration_text(seconds: float) -> str:
    """A duration in its two largest units: ``3 min 20 s``."""
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    rest = int(seconds)
    parts: list[str] = []
    for name, size in units:
        count, rest = divmod(rest, size)
        if count or parts or size == 1:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])


def home_page_router(startup: Startup, readiness: Readiness, database: str, env_command: str) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    templates = Jinja2Templates(directory=_TEMPLATES)

    @router.head("/")
    @router.get("/")
    async def home(request: Request) -> Response:
        context = {
            "version": __version__,
            "status": page_status(startup.phase, await readiness.problem()),
            "holder": startup.holder,
            "facts": facts(startup, database, env_command),
        }
        return templates.TemplateResponse(request, "home.html", context)

    return router

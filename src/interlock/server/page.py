"""The first page: what this replica is and how it is doing."""

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
class Mood:
    """How it is doing, in colour and words."""

    state: Literal["starting", "ready", "trouble"]
    headline: str
    explanation: str


_MOODS: dict[Phase, Mood] = {
    "database": Mood("starting", "Starting the database", "The first start takes a few seconds."),
    "checking": Mood("starting", "Looking at the schema", "Making sure that the tables are those of this release."),
    "waiting": Mood(
        "starting", "Waiting at the gate", "Another replica is migrating; this one goes on when it is done."
    ),
    "settling": Mood(
        "starting", "Clearing the way", "A replica died while it migrated; its sessions are ending first."
    ),
    "migrating": Mood("starting", "Migrating", "This replica is bringing the tables up to date."),
    "joining": Mood("starting", "Joining the others", "This replica is about to take part in the work on instances."),
    "ready": Mood("ready", "Ready", "This replica is up, and its database answers."),
}


def mood(phase: Phase, problem: str | None) -> Mood:
    if phase == "ready" and problem:
        return Mood("trouble", "The database does not answer", problem)
    return _MOODS[phase]


def facts(startup: Startup, database: str) -> dict[str, str]:
    """What the page lists, in this order. `database` is shown as it is, so it must not hold a password."""
    status = startup.schema_status
    schema = f"{status.schema}, version {startup.schema_version}, {status.state}" if status else "not known yet"
    return {
        "Replica": replica_id(),
        "Version": __version__,
        "Up for": in_words(startup.uptime),
        "Database": database,
        "Schema": schema,
    }


def in_words(seconds: float) -> str:
    """A duration in its two largest units: ``3 min 20 s``."""
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    rest = int(seconds)
    parts: list[str] = []
    for name, size in units:
        count, rest = divmod(rest, size)
        if count or parts or size == 1:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])


def page_router(startup: Startup, readiness: Readiness, database: str) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    templates = Jinja2Templates(directory=_TEMPLATES)

    @router.head("/")
    @router.get("/")
    async def home(request: Request) -> Response:
        context = {
            "version": __version__,
            "mood": mood(startup.phase, await readiness.problem()),
            "holder": startup.holder,
            "facts": facts(startup, database),
        }
        return templates.TemplateResponse(request, "home.html", context)

    return router

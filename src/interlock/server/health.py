"""The probes for an orchestrator such as Kubernetes: liveness, readiness and startup."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from interlock.server.readiness import Readiness
from interlock.server.startup import Phase, Startup


class Live(BaseModel):
    live: Literal[True] = True


class Ready(BaseModel):
    ready: bool
    reason: str | None = None


class Started(BaseModel):
    """`holder` is the replica that is migrating, if this replica waits for it and knows its name."""

    phase: Phase
    since: datetime
    holder: dict[str, Any] | None = None


def health_router(startup: Startup, readiness: Readiness) -> APIRouter:
    router = APIRouter(prefix="/health", tags=["health"])

    @router.head("/live", include_in_schema=False)
    @router.get("/live")
    async def live() -> Live:
        """Answers 200 as long as the event loop runs."""
        return Live()

    @router.head("/ready", include_in_schema=False)
    @router.get("/ready", response_model_exclude_none=True, responses={503: {"model": Ready}})
    async def ready(response: Response) -> Ready:
        """Answers 200 if this replica has started and its database answers, else 503."""
        problem = await readiness.problem()
        response.status_code = 503 if problem else 200
        return Ready(ready=problem is None, reason=problem)

    @router.head("/startup", include_in_schema=False)
    @router.get("/startup", response_model_exclude_none=True, responses={503: {"model": Started}})
    async def started(response: Response) -> Started:
        """Answers 200 once the start is complete, and 503 before that. `phase` is the current step of the start."""
        response.status_code = 200 if startup.is_done else 503
        holder = asdict(startup.holder) if startup.holder else None
        return Started(phase=startup.phase, since=startup.since, holder=holder)

    return router

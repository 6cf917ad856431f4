"""Every route of the API, under one prefix and one description of how to get in."""

from fastapi import APIRouter, Security
from fastapi.security import HTTPBearer

from interlock.server.api import (
    backups,
    bulk,
    credential,
    drift,
    events,
    facts,
    instances,
    logs,
    restoration,
    verbs,
)

# What keeps others out is `Authentication`, in front of all routes: this is what the description says of it.
_KEY = HTTPBearer(auto_error=False, scheme_name="key", description="A key: `interlock key create NAME` makes one.")


def api_router() -> APIRouter:
    router = APIRouter(prefix="/api/v1", dependencies=[Security(_KEY)])
    for part in (instances, bulk, verbs, events, logs, facts, credential, backups, restoration, drift):
        router.include_router(part.router)
    return router

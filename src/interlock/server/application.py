"""The web application: every route, and the middleware around them."""

from pathlib import Path

from fastapi import APIRouter, FastAPI, Security
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles

from interlock import __version__
from interlock.server.api import (
    backups,
    bulk,
    credential,
    drift,
    events,
    facts,
    instance_actions,
    instances,
    logs,
    restoration,
)
from interlock.server.api.authentication import Authentication
from interlock.server.api.description import describe
from interlock.server.api.idempotency import ApiIdempotency
from interlock.server.health import health_router
from interlock.server.home_page import home_page_router
from interlock.server.middleware import RequestSizeLimit, ResponseHeaders, StoppingAnswer
from interlock.server.problems import answer_problems
from interlock.server.readiness import Readiness
from interlock.server.startup import Startup

_STATIC = Path(__file__).parent / "static"

# For the OpenAPI description only. The check itself is `Authentication`, in front of all routes.
_KEY = HTTPBearer(
    auto_error=False, scheme_name="key", description="A key to the API. `interlock key create NAME` creates one."
)


def make_application(startup: Startup, readiness: Readiness, database: str, env_command: str = "") -> FastAPI:
    """Builds the application. Its home page shows `database`, a description without a password, and `env_command`, the
    shell command that sets the URL of the database."""
    # FastAPI's own documentation pages load their scripts from other sites.
    # Its redirects after a superfluous slash would go to the host that the request names, past the TLS proxy.
    app = FastAPI(title="Interlock", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.startup = startup
    answer_problems(app)
    app.add_middleware(RequestSizeLimit)
    app.add_middleware(ApiIdempotency, startup=startup)
    app.add_middleware(Authentication, startup=startup)
    app.add_middleware(StoppingAnswer)
    app.add_middleware(ResponseHeaders)  # the outermost
    app.include_router(_api_router())
    describe(app)
    app.include_router(health_router(startup, readiness))
    app.include_router(home_page_router(startup, readiness, database, env_command))
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    return app


def _api_router() -> APIRouter:
    router = APIRouter(prefix="/api/v1", dependencies=[Security(_KEY)])
    for module in (instances, bulk, instance_actions, events, logs, facts, credential, backups, restoration, drift):
        router.include_router(module.router)
    return router

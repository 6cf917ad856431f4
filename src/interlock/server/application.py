"""The web application, put together."""

from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from interlock import __version__
from interlock.server.api.authentication import Authentication
from interlock.server.api.description import describe
from interlock.server.api.idempotency import Repeating
from interlock.server.api.limits import Limits
from interlock.server.api.routes import api_router
from interlock.server.cut_short import CutShort
from interlock.server.headers import Headers
from interlock.server.health import health_router
from interlock.server.page import page_router
from interlock.server.problems import answer_problems
from interlock.server.readiness import Readiness
from interlock.server.startup import Startup

_STATIC = Path(__file__).parent / "static"


def make_application(startup: Startup, readiness: Readiness, database: str) -> FastAPI:
    """`database` is how the database is called on the page: without a password."""
    # FastAPI's own pages for the API load their scripts from elsewhere.
    # And it would lead whoever writes a slash too much to the host that the request names, past the TLS in front of us.
    app = FastAPI(title="Interlock", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.startup = startup
    answer_problems(app)
    app.add_middleware(Limits)
    app.add_middleware(Repeating, startup=startup)
    app.add_middleware(Authentication, startup=startup)
    app.add_middleware(CutShort)
    app.add_middleware(Headers)  # the outermost
    app.include_router(api_router())
    describe(app)
    app.include_router(health_router(startup, readiness))
    app.include_router(page_router(startup, readiness, database))
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    return app

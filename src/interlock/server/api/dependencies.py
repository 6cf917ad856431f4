"""What a request is answered with: the control plane of this replica, once it is ready."""

from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from interlock.server.control import Control
from interlock.server.startup import Startup


def running(request: Request) -> Control:
    """Requests do not come this far before it is ready; but while it stops they do."""
    startup: Startup = request.app.state.startup
    control = startup.control
    if control is None or control.stopping.is_set():
        raise HTTPException(503, "This replica is starting or stopping: ask again in a moment.", {"Retry-After": "1"})
    return control


Running = Annotated[Control, Depends(running)]

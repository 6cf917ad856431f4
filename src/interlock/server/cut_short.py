"""What a replica that stops tells those whose requests it does not finish.

The server cancels them when their time is over. Whether what they asked for is done nobody knows then: it may be in its
very last step. So they are asked to come again, which is safe under an Idempotency-Key.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.server.problems import problem


class CutShort:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except asyncio.CancelledError:
            if not begun:  # and else the end of the connection says it
                said = "This replica stops before it has finished this: ask again, under the same Idempotency-Key."
                await problem(503, said, code="stopping")(scope, receive, send)

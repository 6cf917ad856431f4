"""Python imports this module at its start, so that programs started by tests run on the same event loop as they."""

import asyncio

import uvloop

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())

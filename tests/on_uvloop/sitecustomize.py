"""Python imports this by itself when it starts: a program that tests start runs on the same event loop as they do."""

import asyncio

import uvloop

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())

"""Requests under an Idempotency-Key to an ASGI application are carried out once, however often they are sent."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from interlock import AsyncInterlock, errors
from interlock.integrations.idempotency.application_run import App, Receive, Scope, Send
from interlock.integrations.idempotency.asgi import IdempotencyMiddleware
from support.asgi import Exchange
from support.lease_engine import queue, take_away, until
from support.postgres import execute

RECORDS = "SELECT count(*) FROM interlock.record"


class Shop:
    """An application that counts its runs, stops where a test wants it to, and answers as the test says."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.cancelled = asyncio.Event()
        self.status = 201
        self.parts = [b"a receipt"]
        self.headers = [(b"Content-Type", b"text/plain"), (b"Set-Cookie", b"s=1"), (b"X-Order", b"7")]
        self.after: Callable[[], Any] | None = None
        self.error: Exception | None = None
        self.grant: Any = None
        self.extensions: Any = None

    @property
    def calls(self) -> int:
        return len(self.bodies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self.grant, self.extensions = scope.get("interlock.grant"), scope["extensions"]
        self.bodies.append((await receive())["body"])
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if self.error:
            raise self.error
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        for part in self.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})
        if self.after:
            await self.after()


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def locks(interlock_url: str) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(interlock_url, replica="one") as locks:
        yield locks


@pytest.fixture
async def others(interlock_url: str) -> AsyncIterator[AsyncInterlock]:
    """Another root object, as in another process."""
    async with AsyncInterlock(interlock_url, replica="two") as locks:
        yield locks


def once(shop: App, locks: AsyncInterlock, **rules: Any) -> IdempotencyMiddleware:
    return IdempotencyMiddleware(shop, locks, **{"scope": "authorization", **rules})


async def ask(app: App, path: str = "/", body: bytes = b"", **request: Any) -> Exchange:
    return await Exchange(app).begin(path, body, **request).answer()


def name_of(interlock_url: str) -> str:
    return str(execute(interlock_url, "SELECT name FROM interlock.lease")[0][0])


async def test_a_repeated_request_gets_the_same_answer_from_any_process(
    shop: Shop, locks: AsyncInterlock, others: AsyncInterlock
) -> None:
    first = await ask(once(shop, locks), body=b"one tea")
    assert (first.status, first.body, first.headers["x-order"]) == (201, b"a receipt", "7")
    assert first.headers["set-cookie"] == "s=1"
    assert not first.is_replayed
    again = await ask(once(shop, others), body=b"one tea")
    assert (again.status, again.body, again.headers["x-order"]) == (201, b"a receipt", "7")
    assert again.headers["content-length"] == "9"
    assert "set-cookie" not in again.headers
    assert again.is_replayed
    assert shop.bodies == [b"one tea"]


async def test_an_answer_without_content_is_repeated_without_content(shop: Shop, locks: AsyncInterlock) -> None:
    shop.status, shop.parts = 204, []
    await ask(once(shop, locks))
    again = await ask(once(shop, locks))
    assert (again.status, again.body, again.is_replayed) == (204, b"", True)
    assert "content-length" not in again.headers


async def test_another_client_path_method_or_key_is_another_request(shop: Shop, locks: AsyncInterlock) -> None:
    app = once(shop, locks)
    await ask(app)
    await ask(app, headers={"Authorization": "Bearer ada"})
    await ask(app, "/other")
    await ask(app, method="PATCH")
    await ask(app, key="k2")
    assert shop.calls == 5
    assert (await ask(app, headers={"Authorization": "Bearer ada"})).is_replayed
    assert (await ask(app, key='"k2"')).is_replayed


async def test_the_client_of_a_key_may_be_identified_by_a_function(shop: Shop, locks: AsyncInterlock) -> None:
    app = once(shop, locks, scope=lambda scope: scope["path"][-3:])
    await ask(app, "/ada")
    await ask(app, "/ada")
    assert shop.calls == 1


async def test_concurrent_requests_wait_for_the_answer(
    shop: Shop, locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    shop.go.clear()
    apps = [once(shop, locks), once(shop, others), once(shop, locks), once(shop, others)]
    exchanges = [Exchange(app).begin() for app in apps]
    await shop.begun.wait()
    await until(lambda: len(queue(interlock_url, name_of(interlock_url))) == 3)
    shop.go.set()
    for exchange in exchanges:
        assert (await exchange.answer()).body == b"a receipt"
    assert sorted(exchange.is_replayed for exchange in exchanges) == [False, True, True, True]
    assert shop.calls == 1


@pytest.mark.parametrize("wait", [0, 0.1])
async def test_a_request_that_may_not_wait_longer_is_answered_with_409(
    shop: Shop, locks: AsyncInterlock, others: AsyncInterlock, wait: float
) -> None:
    shop.go.clear()
    first = Exchange(once(shop, locks)).begin()
    await shop.begun.wait()
    second = await ask(once(shop, others, wait=wait))
    assert (second.status, second.problem) == (409, "idempotency_key_in_use")
    assert second.headers["retry-after"] == "1"
    shop.go.set()
    assert (await first.answer()).status == 201
    assert shop.calls == 1


@pytest.mark.parametrize(
    ("path", "body", "content_type"),
    [("/", b"two teas", "a/b"), ("/?a=1", b"one tea", "a/b"), ("/", b"one tea", "c/d")],
)
async def test_a_different_request_under_the_same_key_is_refused(
    shop: Shop, locks: AsyncInterlock, path: str, body: bytes, content_type: str
) -> None:
    app = once(shop, locks)
    await ask(app, "/", b"one tea", headers={"content-type": "a/b"})
    other = await ask(app, path, body, headers={"content-type": content_type})
    assert (other.status, other.problem) == (422, "idempotency_key_reused")
    assert shop.calls == 1


async def test_a_key_may_be_required(shop: Shop, locks: AsyncInterlock) -> None:
    app = once(shop, locks, required=True, methods=["post"])
    missing = await ask(app, key=None)
    assert (missing.status, missing.problem) == (400, "idempotency_key_missing")
    assert (await ask(app, key=None, method="GET")).status == 201
    assert (await ask(app, key=None, method="PATCH")).status == 201
    assert (await ask(once(shop, locks), key=None)).status == 201
    assert shop.calls == 3


async def test_a_malformed_key_is_refused(shop: Shop, locks: AsyncInterlock) -> None:
    malformed = await ask(once(shop, locks), key='"open')
    assert (malformed.status, malformed.problem) == (400, "idempotency_key_malformed")
    assert shop.calls == 0


async def test_methods_that_need_no_key_pass_with_one(shop: Shop, locks: AsyncInterlock, interlock_url: str) -> None:
    for _ in range(2):
        assert (await ask(once(shop, locks), method="GET")).status == 201
    assert shop.calls == 2
    assert execute(interlock_url, RECORDS) == [(0,)]


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_failure_is_not_kept_and_the_next_request_runs(shop: Shop, locks: AsyncInterlock, status: int) -> None:
    app = once(shop, locks)
    shop.status = status
    assert (await ask(app)).status == status
    shop.status = 201
    assert not (await ask(app)).is_replayed
    assert (await ask(app)).is_replayed
    assert shop.calls == 2


async def test_the_kept_statuses_can_be_chosen(shop: Shop, locks: AsyncInterlock) -> None:
    shop.status = 500
    app = once(shop, locks, keep=lambda status: True)
    await ask(app)
    again = await ask(app)
    assert (again.status, again.is_replayed, shop.calls) == (500, True, 1)


async def test_an_exception_of_the_application_is_raised_and_the_next_request_runs(
    shop: Shop, locks: AsyncInterlock
) -> None:
    app = once(shop, locks)
    for error in (ZeroDivisionError(), errors.LeaseTimeout("Of another lease.", name="other")):
        shop.error = error
        with pytest.raises(type(error)) as caught:
            await ask(app)
        assert caught.value is error
    shop.error = None
    assert (await ask(app)).status == 201
    assert shop.calls == 3


async def test_an_application_that_ends_without_an_answer_raises(locks: AsyncInterlock, interlock_url: str) -> None:
    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    with pytest.raises(RuntimeError, match="ended without an answer"):
        await ask(once(silent, locks))
    assert execute(interlock_url, RECORDS) == [(0,)]


async def test_the_answer_is_recorded_before_a_byte_of_it_is_sent(
    shop: Shop, locks: AsyncInterlock, interlock_url: str
) -> None:
    seen: list[Any] = []

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        async def look(message: Any) -> None:
            seen.append(execute(interlock_url, RECORDS)[0][0])
            await send(message)

        await once(shop, locks)(scope, receive, look)

    await ask(watched)
    assert seen == [1, 1]


async def test_a_request_is_carried_out_although_its_client_disconnects(
    shop: Shop, locks: AsyncInterlock, interlock_url: str
) -> None:
    shop.go.clear()
    exchange = Exchange(once(shop, locks)).begin()
    await shop.begun.wait()
    exchange.leave()
    shop.go.set()
    await exchange.answer()
    assert exchange.messages == []
    assert (await ask(once(shop, locks))).is_replayed
    assert shop.calls == 1


async def test_a_request_is_carried_out_although_the_server_cancels_it(
    shop: Shop, locks: AsyncInterlock, interlock_url: str
) -> None:
    """Some servers cancel a request when its client disconnects."""
    shop.go.clear()
    app = once(shop, locks)
    exchange = Exchange(app).begin()
    await shop.begun.wait()
    assert exchange.task is not None
    exchange.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await exchange.task
    second = Exchange(app).begin()
    await until(lambda: queue(interlock_url, name_of(interlock_url)))
    shop.go.set()
    assert (await second.answer()).is_replayed
    assert not shop.cancelled.is_set()
    assert shop.calls == 1
    assert exchange.messages == []


async def test_an_application_is_not_notified_of_a_disconnect_before_it_has_answered(
    locks: AsyncInterlock,
) -> None:
    """Starlette would end a stream at that moment, and half an answer would be kept."""
    told: list[Any] = []
    begun, go = asyncio.Event(), asyncio.Event()

    async def listening(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        listener = asyncio.create_task(_told(receive))
        begun.set()
        await go.wait()
        assert not listener.done()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"all of it"})
        told.append(await listener)

    async def _told(receive: Receive) -> Any:
        return (await receive())["type"]

    exchange = Exchange(once(listening, locks)).begin()
    await begun.wait()
    exchange.leave()
    go.set()
    await exchange.answer()
    assert told == ["http.disconnect"]
    assert (await ask(once(listening, locks))).body == b"all of it"


async def test_an_incomplete_request_of_a_disconnected_client_is_dropped(shop: Shop, locks: AsyncInterlock) -> None:
    exchange = Exchange(once(shop, locks))
    exchange.say(b"half of", more=True)
    exchange.begin(body=None)
    exchange.leave()
    await exchange.answer()
    assert shop.calls == 0
    assert exchange.messages == []


async def test_a_request_in_parts_is_one_request(shop: Shop, locks: AsyncInterlock) -> None:
    app = once(shop, locks)
    exchange = Exchange(app)
    exchange.say(b"one ", more=True)
    exchange.say(b"tea")
    await exchange.begin(body=None).answer()
    assert shop.bodies == [b"one tea"]
    assert (await ask(app, body=b"one tea")).is_replayed


async def test_a_request_that_is_too_large_is_refused(shop: Shop, locks: AsyncInterlock) -> None:
    app = once(shop, locks, largest_request=10)
    assert (await ask(app, body=b"x" * 10)).status == 201
    refused = await ask(app, body=b"x" * 11, key="k2")
    assert (refused.status, refused.problem) == (413, "idempotency_request_too_large")
    assert shop.calls == 1


async def test_an_answer_that_is_too_large_is_sent_and_a_repetition_does_nothing(
    shop: Shop, locks: AsyncInterlock, interlock_url: str
) -> None:
    shop.parts = [b"a" * 60, b"b" * 60, b"c" * 60]
    app = once(shop, locks, largest_answer=100)
    first = await ask(app)
    assert (first.status, first.body) == (201, b"".join(shop.parts))
    assert first.is_complete
    again = await ask(app)
    assert (again.status, again.problem) == (409, "idempotency_answer_not_kept")
    assert b"answered with 201" in again.body
    assert shop.calls == 1


async def test_the_end_of_a_large_answer_is_held_back_until_that_is_recorded(
    shop: Shop, locks: AsyncInterlock, interlock_url: str
) -> None:
    shop.parts = [b"a" * 60, b"b" * 60]
    seen: list[tuple[bool, int]] = []

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        async def look(message: Any) -> None:
            is_last = message["type"] == "http.response.body" and not message["more_body"]
            seen.append((is_last, execute(interlock_url, RECORDS)[0][0]))
            await send(message)

        await once(shop, locks, largest_answer=100)(scope, receive, look)

    await ask(watched)
    assert seen[0] == (False, 0), "a stream is not held back as a whole"
    assert seen[-1] == (True, 1)


async def test_work_after_the_answer_delays_no_other_request(shop: Shop, locks: AsyncInterlock) -> None:
    later = asyncio.Event()
    shop.after = later.wait
    app = once(shop, locks)
    exchange = Exchange(app).begin()
    await until(lambda: exchange.is_complete)
    assert (await ask(app)).is_replayed
    assert exchange.task is not None
    assert not exchange.task.done()
    later.set()
    await exchange.answer()


async def test_extensions_that_bypass_the_body_are_hidden(shop: Shop, locks: AsyncInterlock) -> None:
    await ask(once(shop, locks), extensions={"http.response.pathsend": {}, "tls": {}})
    assert shop.extensions == {"tls": {}}


async def test_the_application_finds_the_grant(shop: Shop, locks: AsyncInterlock, interlock_url: str) -> None:
    await ask(once(shop, locks))
    assert shop.grant.name == name_of(interlock_url)
    assert shop.grant.is_released


async def test_a_lease_that_is_lost_cancels_the_application_and_nothing_is_kept(
    shop: Shop, locks: AsyncInterlock, interlock_url: str
) -> None:
    shop.go.clear()
    exchange = Exchange(once(shop, locks, ttl=4)).begin()
    await shop.begun.wait()
    take_away(interlock_url, name_of(interlock_url))
    await exchange.answer()
    assert (exchange.status, exchange.problem) == (503, "idempotency_unavailable")
    assert shop.cancelled.is_set()
    assert execute(interlock_url, RECORDS) == [(0,)]


async def test_an_answer_that_cannot_be_recorded_is_sent_all_the_same(
    shop: Shop, locks: AsyncInterlock, interlock_url: str
) -> None:
    """Otherwise the client would repeat the request, and it would be carried out again."""
    shop.go.clear()
    exchange = Exchange(once(shop, locks)).begin()
    await shop.begun.wait()
    take_away(interlock_url, name_of(interlock_url))
    shop.go.set()
    assert (await exchange.answer()).status == 201
    assert execute(interlock_url, RECORDS) == [(0,)]


async def test_no_request_runs_while_the_database_does_not_answer(shop: Shop) -> None:
    async with AsyncExitless("postgresql://user@127.0.0.1:1/none") as locks:
        exchange = await ask(once(shop, locks))
    assert (exchange.status, exchange.problem) == (503, "idempotency_unavailable")
    assert shop.calls == 0


class AsyncExitless(AsyncInterlock):
    """A database URL that is not checked when the root object is opened."""

    async def open(self) -> Any:
        return self


async def test_expired_answers_are_deleted(shop: Shop, locks: AsyncInterlock, interlock_url: str) -> None:
    await ask(once(shop, locks, keep_for=None))
    execute(interlock_url, "UPDATE interlock.record SET written_at = now() - interval '2 days'")
    assert (await ask(once(shop, locks, keep_for=None))).is_replayed
    await ask(once(shop, locks), key="k2")
    await until(lambda: execute(interlock_url, RECORDS) == [(1,)])
    assert not (await ask(once(shop, locks))).is_replayed


async def test_keys_work_with_leases_in_a_sqlite_file(shop: Shop, tmp_path: Any) -> None:
    async with AsyncInterlock(f"sqlite:///{tmp_path}/leases.db") as locks:
        await ask(once(shop, locks))
        assert (await ask(once(shop, locks))).is_replayed
    assert shop.calls == 1


async def test_other_scopes_pass_through(shop: Shop, locks: AsyncInterlock) -> None:
    await once(shop, locks)({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert shop.calls == 0


def test_bad_settings_are_refused(shop: Shop) -> None:
    locks = AsyncInterlock("sqlite:///unused.db")
    with pytest.raises(errors.ConfigurationError, match="an AsyncInterlock"):
        once(shop, object())  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigurationError, match="the name of a header, a function"):
        once(shop, locks, scope=7)
    with pytest.raises(errors.ConfigurationError, match="keep_for=-1"):
        once(shop, locks, keep_for=-1)

"""Requests under an Idempotency-Key in Django, in synchronous and asynchronous stacks, through its test clients."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import AsyncClient, Client, override_settings
from django.urls import path

from interlock import Grant
from interlock.integrations.django import async_locks, locks
from support.django_databases import django_databases
from support.lease_engine import queue, take_away, until
from support.postgres import execute
from support.waiting import eventually

RECORDS = "SELECT count(*) FROM interlock.record"
MIDDLEWARE = "interlock.integrations.idempotency.django.IdempotencyMiddleware"


class Shop(ModuleType):
    """A URLconf whose views count their runs and stop where a test wants them to."""

    def __init__(self) -> None:
        super().__init__("shop_urls")
        self.bodies: list[bytes] = []
        self.status = 201
        self.begun, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.cancelled = False
        self.grant: Any = None
        self.urlpatterns = [
            path("sync", self.view),
            path("async", self.async_view),
            path("stream", self.stream),
            path("large", self.large),
        ]

    @property
    def calls(self) -> int:
        return len(self.bodies)

    def answer(self, request: Any) -> HttpResponse:
        response = HttpResponse(b"a receipt", status=self.status, headers={"X-Order": "7"})
        response.set_cookie("s", "1")
        return response

    def view(self, request: Any) -> HttpResponse:
        self.bodies.append(request.body)
        self.grant = getattr(request, "interlock_grant", None)
        self.begun.set()
        self.go.wait(20)
        return self.answer(request)

    async def async_view(self, request: Any) -> HttpResponse:
        self.bodies.append(request.body)
        self.grant = getattr(request, "interlock_grant", None)
        self.begun.set()
        try:
            await asyncio.to_thread(self.go.wait, 20)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return self.answer(request)

    def stream(self, request: Any) -> StreamingHttpResponse:
        self.bodies.append(request.body)
        return StreamingHttpResponse(iter([b"one ", b"two"]))

    def large(self, request: Any) -> HttpResponse:
        self.bodies.append(request.body)
        return HttpResponse(b"x" * 200_000)


@pytest.fixture
def shop(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.delenv("INTERLOCK_DATABASE_URL", raising=False)
    shop = Shop()
    settings = {
        "ROOT_URLCONF": shop,
        "MIDDLEWARE": [MIDDLEWARE],
        "ALLOWED_HOSTS": ["*"],
        "INTERLOCK": {"IDEMPOTENCY": {"SCOPE": "Authorization"}},
    }
    with django_databases(interlock_url) as db, override_settings(**settings):
        assert db.connections["default"].alias == "default", "made here, not in a thread"
        try:
            yield shop
        finally:
            shop.go.set()
            locks().close()


@pytest.fixture
async def async_shop(shop: Shop) -> AsyncIterator[Shop]:
    yield shop
    await async_locks().close()


def rules(**given: Any) -> Any:
    return override_settings(INTERLOCK={"IDEMPOTENCY": {"SCOPE": "Authorization", **given}})


def post(where: str = "/sync", body: bytes = b"", key: str | None = "k1", client: Any = None, **headers: str) -> Any:
    """A test client with its own middleware, as in a process of its own."""
    given = {**({"Idempotency-Key": key} if key is not None else {}), **headers}
    return (client or Client()).post(where, body, content_type="text/plain", headers=given)


async def apost(where: str = "/async", body: bytes = b"", key: str = "k1", **headers: str) -> Any:
    return await AsyncClient().post(where, body, content_type="text/plain", headers={"Idempotency-Key": key, **headers})


def is_replayed(response: Any) -> bool:
    return bool(response.headers.get("Idempotency-Replayed") == "true")


def problem(response: Any) -> str:
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json()["status"] == response.status_code
    return str(response.json()["code"])


def check_replay(first: Any, again: Any) -> None:
    assert (first.status_code, first.content, first.headers["X-Order"]) == (201, b"a receipt", "7")
    assert "s" in first.cookies
    assert not is_replayed(first)
    assert (again.status_code, again.content, again.headers["X-Order"]) == (201, b"a receipt", "7")
    assert not again.cookies
    assert is_replayed(again)


def test_a_repeated_request_gets_the_same_answer(shop: Shop) -> None:
    check_replay(post(body=b"one tea"), post(body=b"one tea"))
    assert shop.bodies == [b"one tea"]
    assert isinstance(shop.grant, Grant)
    assert not is_replayed(post(body=b"one tea", Authorization="Bearer ada"))


async def test_a_repeated_request_gets_the_same_answer_in_an_asynchronous_stack(async_shop: Shop) -> None:
    check_replay(await apost(body=b"one tea"), await apost(body=b"one tea"))
    assert async_shop.bodies == [b"one tea"]


async def test_a_synchronous_view_in_an_asynchronous_stack(async_shop: Shop) -> None:
    check_replay(await apost("/sync"), await apost("/sync"))
    assert async_shop.calls == 1


def test_a_different_body_a_malformed_key_and_a_missing_one_are_refused(shop: Shop) -> None:
    with rules(REQUIRED=True):
        post(body=b"one tea")
        other = post(body=b"two teas")
        assert (other.status_code, problem(other)) == (422, "idempotency_key_reused")
        malformed = post(key='"open')
        assert (malformed.status_code, problem(malformed)) == (400, "idempotency_key_malformed")
        missing = post(key=None)
        assert (missing.status_code, problem(missing)) == (400, "idempotency_key_missing")
    assert post(key=None).status_code == 201
    assert shop.calls == 2


def test_concurrent_threads_wait_or_are_answered_with_409(shop: Shop, interlock_url: str) -> None:
    shop.go.clear()
    with ThreadPoolExecutor() as threads:
        answers = [threads.submit(post)]
        assert shop.begun.wait(20)
        with rules(WAIT=0):
            refused = post()
        assert (refused.status_code, problem(refused)) == (409, "idempotency_key_in_use")
        answers += [threads.submit(post) for _ in range(3)]
        name = shop.grant.name
        eventually(lambda: len(queue(interlock_url, name)) == 3)
        shop.go.set()
        assert [is_replayed(answer.result()) for answer in answers] == [False, True, True, True]
    assert shop.calls == 1


def test_a_failure_is_not_kept(shop: Shop) -> None:
    shop.status = 500
    assert post().status_code == 500
    shop.status = 201
    assert not is_replayed(post())
    assert shop.calls == 2


@pytest.mark.parametrize("where", ["/stream", "/large"])
def test_a_stream_or_a_large_answer_is_sent_and_a_repetition_does_nothing(shop: Shop, where: str) -> None:
    first = post(where)
    content = first.getvalue()
    assert (first.status_code, content) == (200, b"one two" if where == "/stream" else b"x" * 200_000)
    again = post(where)
    assert (again.status_code, problem(again)) == (409, "idempotency_answer_not_kept")
    assert shop.calls == 1


def test_a_request_that_is_too_large_is_refused(shop: Shop) -> None:
    with rules(LARGEST_REQUEST=10):
        assert problem(post(body=b"x" * 11)) == "idempotency_request_too_large"
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=10):
        assert post(body=b"x" * 11).status_code == 413
    assert shop.calls == 0


def test_an_answer_that_cannot_be_recorded_is_sent_all_the_same(shop: Shop, interlock_url: str) -> None:
    """A thread cannot be interrupted, so the view completes after the lease is lost."""
    with ThreadPoolExecutor() as threads, rules(TTL=0.5):
        shop.go.clear()
        answer = threads.submit(post)
        assert shop.begun.wait(20)
        take_away(interlock_url, shop.grant.name)
        eventually(lambda: shop.grant.lost)
        shop.go.set()
        assert answer.result().status_code == 201
    assert execute(interlock_url, RECORDS) == [(0,)]


async def test_a_lease_that_is_lost_cancels_an_asynchronous_view(async_shop: Shop, interlock_url: str) -> None:
    async_shop.go.clear()
    with rules(TTL=0.5):
        answer = asyncio.create_task(apost())
        await until(async_shop.begun.is_set)
        take_away(interlock_url, async_shop.grant.name)
        refused = await answer
    async_shop.go.set()
    assert (refused.status_code, problem(refused)) == (503, "idempotency_unavailable")
    assert async_shop.cancelled


async def test_a_request_is_carried_out_although_its_client_disconnects(async_shop: Shop, interlock_url: str) -> None:
    """Django cancels a request whose client has disconnected."""
    async_shop.go.clear()
    first = asyncio.create_task(apost())
    await until(async_shop.begun.is_set)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(apost())
    await until(lambda: queue(interlock_url, async_shop.grant.name))
    async_shop.go.set()
    assert is_replayed(await second)
    assert async_shop.calls == 1
    assert not async_shop.cancelled

"""Losing a lease: the holder is notified before another can acquire it, and its work is cancelled."""

import asyncio
from functools import partial

import pytest

from interlock import AsyncInterlock, errors
from interlock.clock import boottime
from interlock.coordination.events import Event, Lost
from interlock.coordination.lease.lease import AsyncLease
from support.lease_engine import ends_at, holder, move_clock, take_away, until
from support.postgres import execute
from support.proxy import cable_to


def brisk(locks: AsyncInterlock) -> AsyncLease:
    """A lease that is renewed, and so notices a loss, many times a second."""
    return locks.lease("feeds", ttl=30, renew_every=0.05)


async def test_the_body_is_cancelled_and_the_loss_is_raised(locks: AsyncInterlock, interlock_url: str) -> None:
    ended_by: list[type[BaseException]] = []

    async def work() -> None:
        async with brisk(locks) as grant:
            take_away(interlock_url)
            try:
                await asyncio.Event().wait()
            except BaseException as error:
                ended_by.append(type(error))
                assert grant.lost
                raise

    with pytest.raises(errors.LeaseLost, match=r"'feeds' .* is not held any more: another process may hold it") as lost:
        await work()
    assert ended_by == [asyncio.CancelledError]
    assert lost.value.name == "feeds"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_callbacks_are_called_once_with_the_reason(locks: AsyncInterlock, interlock_url: str) -> None:
    reasons: list[str] = []
    grant = await brisk(locks).acquire()
    grant.on_lost(reasons.append)
    take_away(interlock_url)
    assert await grant.wait_lost() == "refused"
    grant.on_lost(reasons.append)
    assert reasons == ["refused", "refused"], "the second callback at once"
    assert await grant.wait_lost() == "refused"
    assert await grant.release() is False
    assert grant.lost


async def test_wait_lost_can_be_cancelled_any_number_of_times(locks: AsyncInterlock) -> None:
    grant = await locks.lease("feeds").acquire()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await grant.wait_lost()
    assert not grant._on_lost


@pytest.mark.parametrize("immediate", [True, False])
async def test_an_operator_may_break_the_lease(locks: AsyncInterlock, interlock_url: str, immediate: bool) -> None:
    grant = await brisk(locks).acquire()
    execute(interlock_url, "SELECT interlock.break_v1('feeds', %s, false, 'a test', 'me')", immediate)
    assert await grant.wait_lost() == "broken"
    assert locks.metrics.snapshot().losses["broken"] == 1


async def test_a_body_that_did_not_notice_the_loss_gets_the_error_at_its_end(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    async def work() -> None:
        async with locks.lease("feeds"):
            take_away(interlock_url)

    with pytest.raises(errors.LeaseLost, match="another process may hold it"):
        await work()


async def test_a_loss_at_the_end_of_the_body_is_a_loss_and_no_cancellation(
    locks: AsyncInterlock,
) -> None:
    async def work() -> None:
        async with locks.lease("feeds") as grant:
            locks.engine()._held.lose(grant, "refused")

    with pytest.raises(errors.LeaseLost):
        await work()


async def test_the_bodys_own_error_is_kept_as_the_cause(locks: AsyncInterlock, interlock_url: str) -> None:
    async def work() -> None:
        async with brisk(locks):
            take_away(interlock_url)
            try:
                await asyncio.Event().wait()
            finally:
                raise LookupError("on the way out")

    with pytest.raises(errors.LeaseLost) as lost:
        await work()
    assert isinstance(lost.value.__cause__, LookupError)


async def test_a_cancellation_by_another_is_not_swallowed(locks: AsyncInterlock, interlock_url: str) -> None:
    task = asyncio.current_task()
    assert task is not None

    async def work() -> None:
        async with brisk(locks) as grant:
            grant.on_lost(lambda _: task.cancel())
            take_away(interlock_url)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await work()
    assert task.uncancel() == 0


async def test_a_cancellation_without_a_loss_stays_one_and_releases_the_lease(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with locks.lease("feeds"):
            inside.set()
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await inside.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert holder(interlock_url) is None


async def test_a_timeout_around_the_block_stays_a_timeout(locks: AsyncInterlock, interlock_url: str) -> None:
    with pytest.raises(TimeoutError):
        async with locks.lease("other"), asyncio.timeout(0.2), locks.lease("feeds"):
            await asyncio.Event().wait()
    await until(lambda: holder(interlock_url) is None)


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
async def test_a_callback_that_fails_does_not_keep_the_loss_from_the_body(
    locks: AsyncInterlock, interlock_url: str, error: type[BaseException]
) -> None:
    def fail(_: str) -> None:
        raise error

    async def work() -> None:
        grant = await brisk(locks).acquire()
        grant.on_lost(fail)
        async with grant:
            take_away(interlock_url)
            await asyncio.Event().wait()

    with pytest.raises(errors.LeaseLost):
        await work()


async def test_a_stopped_process_knows_of_the_loss_at_its_first_line(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = await locks.lease("feeds", ttl=3600).acquire()
    with monkeypatch.context() as patch:
        move_clock(patch, 3589)
        assert 0 < grant.remaining < 10
        grant.check()
        move_clock(patch, 10)
        assert grant.lost
        assert grant.remaining == 0
        with pytest.raises(errors.LeaseLost, match="no renewal was confirmed in time"):
            grant.check()
        assert await grant.release() is False, "the release reports it, before the timer has noticed"
        assert await grant.wait_lost() == "expired"
    assert locks.metrics.snapshot().losses["expired"] == 1


async def test_a_suspended_machine_notices_the_loss_when_it_resumes(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event loop does not know how long it slept, and would renew only some minutes later."""
    grant = await locks.lease("feeds", ttl=3600).acquire()
    with monkeypatch.context() as patch:
        move_clock(patch, 3600)
        assert await grant.wait_lost() == "expired"


@pytest.mark.parametrize("how", ["expired", "released"])
async def test_a_body_is_not_started_without_the_lease(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    grant = await locks.lease("feeds").acquire()
    begun = False

    async def work() -> None:
        nonlocal begun
        async with grant:
            begun = True

    with monkeypatch.context() as patch:
        if how == "expired":
            move_clock(patch, 30)
        else:
            await grant.release()
        with pytest.raises(errors.LeaseLost, match=r"it was released|no renewal"):
            await work()
    assert not begun
    await until(lambda: holder(interlock_url) is None)


async def test_a_disconnected_holder_notices_the_loss_before_another_can_acquire(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        locks = AsyncInterlock(url)
        seen: list[float] = []
        async with locks.lease("other"):  # all connections are open
            pass

        async def work() -> None:
            async with locks.lease("feeds", ttl=1) as grant:
                cable.cut()
                try:
                    await asyncio.Event().wait()
                finally:
                    assert grant.lost
                    seen.extend([grant.trusted_until, ends_at(interlock_url)])

        with pytest.raises(errors.LeaseLost, match="no renewal was confirmed in time"):
            await work()
        trusted_until, free_from = seen
        assert trusted_until < free_from, "the database would not have granted it yet"
        cable.restore()
        await locks.close()


async def test_a_lost_lease_is_free_when_its_block_has_ended(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process has to wait until it expires in the database."""
    with monkeypatch.context() as patch:
        grant = await locks.lease("feeds").acquire()
        move_clock(patch, 30)
        assert await grant.release() is False
    await until(lambda: holder(interlock_url) is None)


async def test_every_loss_is_an_event_and_counted_by_its_reason(interlock_url: str) -> None:
    events: list[object] = []
    locks = AsyncInterlock(interlock_url, on_event=events.append)
    grant = await brisk(locks).acquire()
    take_away(interlock_url)
    await grant.wait_lost()
    (lost,) = [event for event in events if isinstance(event, Lost)]
    assert (lost.name, lost.token, lost.why) == ("feeds", grant.token, "refused")
    figures = locks.metrics.snapshot()
    assert (figures.losses["refused"], figures.held, figures.hold.count) == (1, 0, 1)
    await locks.close()


async def test_a_hook_that_ends_the_thread_does_not_keep_a_loss_from_other_holders(interlock_url: str) -> None:
    def leave(event: Event) -> None:
        if isinstance(event, Lost) and event.name == "a":
            raise SystemExit

    reasons: list[str] = []
    locks = AsyncInterlock(interlock_url, on_event=leave)
    grants = [await locks.lease(name, ttl=60).acquire() for name in "ab"]
    for grant in grants:
        grant.on_lost(partial(lambda name, why: reasons.append(f"{name} {why}"), grant.name))
        grant.trusted_until = boottime()
    renewals = locks.engine()._renewals
    with pytest.raises(SystemExit):
        renewals._end_trust()
    await until(lambda: len(reasons) == 2)
    assert sorted(reasons) == ["a expired", "b expired"]
    await locks.close()

"""Concurrent replicas, lost answers, and late requests."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from dns.rdatatype import RdataType

from interlock.dns import Dns, Published, dns_from_url
from interlock.dns.rfc2136 import Rfc2136
from interlock.errors import DnsForeign
from support.bind import Bind
from support.proxy import Cable
from support.waiting import eventually

REPLICAS = 8


async def test_one_instance_is_published_by_all_replicas_at_once(bind: Bind, host: str) -> None:
    replicas = [dns_from_url(bind.url()) for _ in range(REPLICAS)]
    await asyncio.gather(*(replica.publish(host, "127.0.0.1", "i-1") for replica in replicas))
    assert bind.records(host, RdataType.A) == ["60 127.0.0.1"]
    await asyncio.gather(*(replica.withdraw(host, "i-1") for replica in replicas))
    assert await replicas[0].lookup(host) == Published()


async def test_one_of_many_instances_gets_the_name(bind: Bind, names: Dns, host: str) -> None:
    for round_ in range(5):
        name = f"{host}-{round_}"
        ids = [f"i-{number}" for number in range(REPLICAS)]
        tries = [dns_from_url(bind.url()).publish(name, f"127.0.0.{number}", id_) for number, id_ in enumerate(ids, 1)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        [winner] = [number for number, result in enumerate(results, 1) if result is None]
        assert await names.lookup(name) == Published(f"i-{winner - 1}", (f"127.0.0.{winner}",))
        refused = [result for result in results if result is not None]
        assert {type(one) for one in refused} == {DnsForeign}
        assert {getattr(one, "owner", None) for one in refused} == {f"i-{winner - 1}"}


async def test_a_name_that_changes_owner_never_has_records_of_both(bind: Bind, names: Dns, host: str) -> None:
    ids = [f"i-{number}" for number in range(4)]
    address = {id_: f"127.0.0.{number}" for number, id_ in enumerate(ids, 1)}
    had: list[str] = []

    async def live(id_: str) -> None:
        while id_ not in had:
            try:
                await names.publish(host, address[id_], id_)
            except DnsForeign:
                continue
            assert await names.lookup(host) == Published(id_, (address[id_],))
            had.append(id_)
            await names.withdraw(host, id_)

    await asyncio.gather(*map(live, ids))
    assert sorted(had) == ids
    assert await names.lookup(host) == Published()


@pytest.mark.parametrize("successor", ["no replica", "another replica"])
async def test_a_name_that_becomes_free_during_a_request_is_not_refused(
    bind: Bind, names: Dns, host: str, successor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name becomes free between the attempt to create it and the query for its owner."""
    await names.publish(host, "127.0.0.1", "i-1")
    update = Rfc2136._update

    async def update_and_then(*arguments: Any) -> bool:
        monkeypatch.undo()
        is_ours = await update(*arguments)
        await names.withdraw(host, "i-1")
        if successor == "another replica":
            await dns_from_url(bind.url()).publish(host, "127.0.0.2", "i-2")
        return is_ours

    monkeypatch.setattr(Rfc2136, "_update", update_and_then)
    await names.publish(host, "127.0.0.2", "i-2")
    assert await names.lookup(host) == Published("i-2", ("127.0.0.2",))


@pytest.fixture
def cable(bind: Bind) -> Iterator[Cable]:
    cable = Cable(("127.0.0.1", bind.port))
    yield cable
    cable.close()


async def killed_before_the_answer(asking: Coroutine[Any, Any, None], cable: Cable) -> None:
    """The server has made the change, but the answer is lost."""
    cable.restore()
    cable.swallow_replies()
    cable.swallowed = 0
    task = asyncio.create_task(asking)
    await asyncio.to_thread(eventually, lambda: cable.swallowed)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_lost_answer_does_not_lose_the_name(bind: Bind, names: Dns, cable: Cable, host: str) -> None:
    through = dns_from_url(bind.url(port=cable.port))
    for target in ("127.0.0.1", "127.0.0.2", "elsewhere.example.net"):
        await killed_before_the_answer(through.publish(host, target, "i-1"), cable)
        await names.publish(host, target, "i-1")
        assert await names.lookup(host) == Published("i-1", (target,))
    await killed_before_the_answer(through.withdraw(host, "i-1"), cable)
    await names.withdraw(host, "i-1")
    assert await names.lookup(host) == Published()


async def test_a_request_that_comes_after_the_end_is_told_by_its_mark_and_can_be_undone(
    bind: Bind, names: Dns, cable: Cable, host: str
) -> None:
    cable.cut()
    asking = asyncio.create_task(dns_from_url(bind.url(port=cable.port)).publish(host, "127.0.0.1", "i-1"))
    await asyncio.to_thread(eventually, lambda: cable.is_loaded)
    asking.cancel()
    await asyncio.wait([asking])
    await names.withdraw(host, "i-1")  # the instance is deleted, and what was sent is still under way
    cable.restore()
    await asyncio.to_thread(eventually, lambda: bind.records(host, RdataType.A))
    with pytest.raises(DnsForeign) as refused:
        await names.publish(host, "127.0.0.2", "i-2")
    assert refused.value.owner == "i-1"
    await names.withdraw(host, refused.value.owner)
    await names.publish(host, "127.0.0.2", "i-2")
    assert await names.lookup(host) == Published("i-2", ("127.0.0.2",))

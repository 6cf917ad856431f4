"""Growing storage, if the driver supports that."""

import pytest

from interlock import errors
from support.instances import Plane
from support.paper_driver import PaperDriver
from support.postgres import execute

GIB = 2**30


async def test_storage_grows_and_never_shrinks(plane: Plane) -> None:
    shop = await plane.created("shop", storage="2Gi")
    grown = await plane.told(plane.instances.resize, shop.id, "3Gi")
    assert (grown.state, grown.storage_bytes, grown.error, grown.working) == ("running", 3 * GIB, None, False)
    assert execute(plane.url, "SELECT storage FROM paper") == [(3 * GIB,)]
    with pytest.raises(errors.BadSpec, match="storage can only grow"):
        await plane.ask(plane.instances.resize, shop.id, "2Gi")
    with pytest.raises(errors.BadSpec, match="is not a valid size"):
        await plane.ask(plane.instances.resize, shop.id, "much")
    assert (await plane.told(plane.instances.stop, shop.id)).state == "stopped"
    assert (await plane.told(plane.instances.resize, shop.id, "4Gi")).storage_bytes == 4 * GIB


async def test_a_driver_that_cannot_resize_is_not_called(
    plane: Plane, paper: PaperDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await plane.created("shop", storage="2Gi")
    monkeypatch.setattr(paper, "can_resize", False)
    with pytest.raises(errors.NotSupported, match="driver paper cannot give the instance shop more storage"):
        await plane.ask(plane.instances.resize, shop.id, "3Gi")
    assert await plane.read(shop.id) == shop


async def test_a_resize_that_fails_leaves_what_there_was(
    plane: Plane, paper: PaperDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(id: str, storage_bytes: int) -> None:  # noqa: A002
        raise errors.BadSpec("The storage class cannot grow: choose another.")

    shop = await plane.created("shop", storage="2Gi")
    monkeypatch.setattr(paper, "resize", refuse)
    tried = await plane.told(plane.instances.resize, shop.id, "3Gi")
    assert (tried.state, tried.storage_bytes, tried.error_code) == ("running", 2 * GIB, "bad_spec")
    assert tried.watcher == shop.watcher

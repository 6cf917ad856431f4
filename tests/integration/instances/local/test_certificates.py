"""A running server switches to another certificate, and its key stays private."""

import stat

import pytest

from interlock.errors import BadSpec
from support.certificate_authority import Authority
from support.local_instances import Shop, connected


async def test_open_connections_stay_and_the_server_is_the_same(shop: Shop) -> None:
    postmaster = shop.directory / "postgresql" / "data" / "postmaster.pid"
    before = postmaster.read_text().splitlines()[0]
    connection = await connected(await shop.endpoint(), await shop.driver.password(shop.spec.id))
    try:
        session = await connection.fetchval("SELECT pg_backend_pid()")
        for certificate in (Authority().issue(), None):
            await shop.driver.use_certificate(shop.spec.id, certificate)
            assert await connection.fetchval("SELECT pg_backend_pid()") == session
            assert await shop.ask("SELECT 1") == 1
    finally:
        await connection.close()
    assert postmaster.read_text().splitlines()[0] == before


async def test_keys_are_for_nobody_else_to_read(shop: Shop) -> None:
    await shop.driver.use_certificate(shop.spec.id, Authority().issue())
    await shop.driver.use_certificate(shop.spec.id, None)

    files = [path for path in (shop.directory / "postgresql").glob("*") if path.is_file()]
    keys = [path for path in files if b"PRIVATE KEY" in path.read_bytes()]

    assert {path.name for path in keys} == {"server.pem", "server-own.pem"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}


async def test_a_certificate_that_clients_could_not_verify_changes_no_file(shop: Shop) -> None:
    place = shop.directory / "postgresql"
    before = {path.name: path.stat().st_mtime_ns for path in place.glob("server*")}

    with pytest.raises(BadSpec, match=r"not for 127\.0\.0\.1"):
        await shop.driver.use_certificate(shop.spec.id, Authority().issue(addresses=["10.0.0.1"]))

    assert {path.name: path.stat().st_mtime_ns for path in place.glob("server*")} == before

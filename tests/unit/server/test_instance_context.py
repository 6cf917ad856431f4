"""The context of instances that the settings describe."""

from pathlib import Path

import pytest

from interlock.aggregate.transactions import Transactions
from interlock.config import Settings
from interlock.instances.drivers.kubernetes import objects
from interlock.instances.drivers.port import Spec
from interlock.server.instance_context import instance_context

RFC2136 = "rfc2136://127.0.0.1/db.example.com?key=interlock&secret-env=NOBODY"


@pytest.mark.parametrize(("dns", "told"), [("none:", True), (RFC2136, False)])
def test_external_dns_gets_the_name_unless_interlock_publishes_it(tmp_path: Path, dns: str, told: bool) -> None:
    settings = Settings(data_dir=tmp_path, drivers="kubernetes", driver="kubernetes", dns=dns)

    driver = instance_context(settings, Transactions("postgresql://user@localhost:1/nothing", "instances")).driver(
        "kubernetes"
    )

    spec = Spec(id="1", name="shop", dns_name="shop.db.example.com")
    service = objects.service(spec, driver._settings)  # type: ignore[attr-defined]
    assert service.metadata is not None
    names = [value for key, value in (service.metadata.annotations or {}).items() if "external-dns" in key]
    assert names == (["shop.db.example.com"] if told else [])

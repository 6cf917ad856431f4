"""The rules for every domain: repeated activities leave one effect, and orchestrations end the same after a crash.

A domain is listed in `DOMAINS` with a sample for each activity and for each orchestration. One that is in the product
and not here, or an activity without a sample, fails `test_nothing_is_left_out`.
"""

import json
import pkgutil
from typing import Any

import interlock
from interlock.durable.declarations import Activity, Orchestration
from support import durable_domain as shop
from support.durable_samples import Domain, Sample
from support.instances_domain import INSTANCES
from support.postgres import execute


def order(id: str) -> shop.Order:  # noqa: A002
    return shop.Order(id, 3)


def _event(kind: str) -> str:
    return f"SELECT count(*) FROM event WHERE subject = %(id)s AND kind = '{kind}'"


STATE = """
    SELECT (SELECT array_agg(quantity) FROM reservation WHERE order_id = %(id)s),
           (SELECT count(*) FROM reservation WHERE order_id = %(id)s AND released_at IS NOT NULL),
           (SELECT array_agg(amount) FROM charge WHERE order_id = %(id)s),
           (SELECT count(*) FROM parcel WHERE order_id = %(id)s),
           (SELECT array_agg(kind ORDER BY kind) FROM event WHERE subject = %(id)s)
"""

RELEASED = """
    SELECT count(*) FROM reservation r
      JOIN event e ON e.subject = r.order_id AND e.kind = 'released' AND e.at = r.released_at
     WHERE r.order_id = %(id)s
"""

SHOP = Domain(
    module="support.durable_domain",
    parts=shop.parts,
    tables=shop.TABLES,
    activities={
        "shop.reserve": Sample(order, "SELECT count(*) FROM reservation WHERE order_id = %(id)s", _event("reserved")),
        "shop.charge": Sample(order, "SELECT count(*) FROM charge WHERE order_id = %(id)s", _event("charged")),
        "shop.ship": Sample(order, "SELECT count(*) FROM parcel WHERE order_id = %(id)s", _event("shipped")),
        "shop.release": Sample(order, RELEASED, _event("released")),
    },
    orchestrations={
        "shop.undo": Sample(order, state=STATE),
        "shop.send": Sample(order, state=STATE),
        "shop.deliver": Sample(order, state=STATE),
        "shop.deliver_twice": Sample(order, state=STATE),
    },
)

DOMAINS = [SHOP, INSTANCES]


def in_the_product() -> set[str]:
    """Every module of Interlock that declares activities or orchestrations, by its name."""
    found = {module.name for module in pkgutil.walk_packages(interlock.__path__, "interlock.")}
    return {name for name in found if name.rpartition(".")[2] in ("activities", "orchestrations")}


def listed() -> set[str]:
    """The modules of the listed domains."""
    functions = [one.function for _, one in activities()] + [one.function for _, one in orchestrations()]
    return {function.__module__ for function in functions}


def activities() -> list[tuple[Domain, Activity[Any, Any]]]:
    return [(domain, activity) for domain in DOMAINS for part in domain.parts for activity in part.activities]


def orchestrations() -> list[tuple[Domain, Orchestration[Any, Any]]]:
    return [(domain, one) for domain in DOMAINS for part in domain.parts for one in part.orchestrations]


def asked(url: str, query: str, id: str) -> Any:  # noqa: A002
    """The first row in plain JSON types."""
    import psycopg

    with psycopg.connect(url) as connection:
        return json.loads(json.dumps(connection.execute(query, {"id": id}).fetchone(), default=str))


def recorded(url: str, id: str) -> None:  # noqa: A002
    """Record an open orchestration, so that its steps may be attempted."""
    execute(url, "SELECT interlock.record_orchestration_v1(%s, 'harness', '1.0.0', '{}', NULL, NULL)", id)

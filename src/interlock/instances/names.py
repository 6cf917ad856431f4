"""The names of an instance: claimed with its record, published when it runs, freed when everything is gone."""

from collections.abc import Awaitable, Callable
from typing import Any

from interlock.coordination.claims import AsyncClaims, Claimed, Pending, Taken
from interlock.dns import NoDns
from interlock.errors import DnsForeign, InstanceUnknown, NameTaken, RetryTransaction
from interlock.instances.context import InstanceContext
from interlock.instances.drivers.port import Spec
from interlock.instances.records import InstanceRecord, InstanceRecords
from interlock.names import dns_label, host_name

_PATIENCE = 5.0
"""Seconds to wait for another open transaction that claims or frees the name."""


class InstanceNames:
    def __init__(self, context: InstanceContext) -> None:
        self._context = context
        self._records = InstanceRecords(context.schema)
        schema = context.schema
        self._instances = AsyncClaims(lambda: schema, "instance", dns_label)
        self._hosts = AsyncClaims(lambda: schema, "dns", host_name)

    async def claim(self, connection: Any, spec: Spec) -> None:
        """Claim both names. If this raises `NameTaken`, the caller has to roll the transaction back."""
        for scope, name, what in ((self._instances, spec.name, "name"), (self._hosts, spec.dns_name, "DNS name")):
            answer = await scope.claim(connection, name, spec.id, timeout=_PATIENCE)
            if answer is not None and not isinstance(answer, Claimed):
                raise await self._taken(connection, what, answer)

    async def free(self, connection: Any, instance: InstanceRecord) -> None:
        """Free both names. Before that, everything that belonged to the instance has to be observed to be gone."""
        for scope, name in ((self._instances, instance.name), (self._hosts, instance.dns_name)):
            if name and isinstance(
                await scope.release(connection, name, instance.id, gone=True, timeout=_PATIENCE), Pending
            ):
                raise RetryTransaction(f"Another transaction is claiming the name {name!r}: try again.", sqlstate="")

    async def check(self, instance: InstanceRecord) -> None:
        if name := instance.dns_name:
            await self._replacing_stale(name, lambda: self._context.dns.check(name, instance.id))

    def are_published(self, instance: InstanceRecord) -> bool:
        """True if Interlock publishes the instance's DNS name itself."""
        return bool(instance.dns_name) and not isinstance(self._context.dns, NoDns)

    async def publish(self, instance: InstanceRecord) -> None:
        if (name := instance.dns_name) and (host := instance.host):
            await self._replacing_stale(name, lambda: self._context.dns.publish(name, host, instance.id))

    async def withdraw(self, instance: InstanceRecord) -> None:
        if instance.dns_name:
            await self._context.dns.withdraw(instance.dns_name, instance.id)

    async def _replacing_stale(self, name: str, verb: Callable[[], Awaitable[None]]) -> None:
        """Run `verb`, and withdraw the name first if a late replica published it for an instance that is gone."""
        try:
            await verb()
        except DnsForeign as error:
            if error.owner is None or not await self._is_gone(error.owner):
                raise
            await self._context.dns.withdraw(name, error.owner)
            await verb()

    async def _is_gone(self, id: str) -> bool:
        async with self._context.transactions.transaction() as connection:
            try:
                return (await self._records.read(connection, id)).names_freed_at is not None
            except InstanceUnknown:  # it may belong to another control plane
                return False

    async def _taken(self, connection: Any, what: str, answer: Any) -> NameTaken:
        name = answer.name
        if not isinstance(answer, Taken):
            return NameTaken(
                f"Another transaction is claiming or freeing the {what} {name!r}: try again.", name=name, owner=None
            )
        try:
            owner = await self._records.read(connection, answer.owner)
        except InstanceUnknown:
            return NameTaken(
                f"The {what} {name!r} belongs to {answer.owner}: choose another name.", name=name, owner=answer.owner
            )
        return NameTaken(
            f"The {what} {name!r} belongs to the instance {owner.name} ({owner.id}, {owner.state}): choose another "
            "name, or delete that instance first.",
            name=name,
            owner=owner.id,
        )

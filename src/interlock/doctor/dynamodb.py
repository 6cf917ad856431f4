"""Checks whether a DynamoDB table can be trusted with leases."""

from collections.abc import Iterator

from interlock.doctor.checks.reach import answers
from interlock.doctor.result import Finding, ok, problem, warning
from interlock.errors import EX_NOPERM, InterlockError
from interlock.stores.dynamodb.address import TableAddress
from interlock.stores.dynamodb.examination import TableExamination, examine
from interlock.stores.dynamodb.table import TTL

_TIMEOUT = 5.0
_CREATE = "Let a user with the rights for it run `interlock store create URL`."
_POLICY = "Give these credentials the policy of docs/how-to/dynamodb.md."


async def examine_table(address: TableAddress) -> list[Finding]:
    try:
        return list(judge(await examine(address, _TIMEOUT)))
    except InterlockError as error:
        return [problem("reachable", str(error), exit_status=error.exit_status)]


def judge(seen: TableExamination) -> Iterator[Finding]:
    yield answers(seen.round_trip)
    yield ok("table", f"Its key is {seen.table.key!r}, a single text attribute.", {"key": seen.table.key})
    yield _index(seen)
    yield _ttl(seen)
    yield from _permissions(seen)
    yield _transactions(seen)


def _index(seen: TableExamination) -> Finding:
    if seen.table.has_index:
        return ok("index", "It has the index by which leases are listed.")
    return warning(
        "index",
        "It has no index by which leases are listed: semaphores, members and `interlock lease list` need this index.",
        _CREATE,
    )


def _ttl(seen: TableExamination) -> Finding:
    deletes_by = seen.table.deletes_by
    if seen.ttl_hidden:
        return ok("ttl", "These credentials may not see if the table deletes items by their ttl.")
    if deletes_by == TTL:
        return ok("ttl", "Items of leases that were not used for a week are deleted.")
    if deletes_by is None:
        return warning("ttl", "It deletes nothing by ttl: items of unused leases stay.", _CREATE)
    return warning(
        "ttl",
        f"It deletes items by {deletes_by!r}, which leases do not have: items of unused leases stay.",
        "Delete old items yourself, or give leases a table of their own.",
        {"deletes_by": deletes_by},
    )


def _permissions(seen: TableExamination) -> Iterator[Finding]:
    if seen.denied:
        says = f"These AWS credentials may not do {_listed(seen.denied)}, which leases need."
        yield problem("permissions", says, _POLICY, {"denied": seen.denied}, exit_status=EX_NOPERM)
    if seen.cannot_list:
        says = f"These AWS credentials may not do {_listed(seen.cannot_list)}, by which leases are listed."
        yield warning("permissions", says, _POLICY, {"denied": seen.cannot_list})
    if not seen.denied and not seen.cannot_list:
        yield ok("permissions", "These AWS credentials may do what leases need.")


def _transactions(seen: TableExamination) -> Finding:
    if seen.has_transactions:
        return ok("transactions", "The engine has transactions, for guards and records.")
    return warning(
        "transactions",
        "This engine has no transactions: guards, once and every cannot work, and replicas have to agree on `readers`.",
        "Use DynamoDB itself, or another engine.",
    )


def _listed(operations: list[str]) -> str:
    """Returns the operations by AWS's names."""
    return ", ".join(operation.title().replace("_", "") for operation in operations)

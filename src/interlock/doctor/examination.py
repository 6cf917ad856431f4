"""Examines a database: collects its facts, then judges them, the most serious checks first."""

from collections.abc import Iterator
from itertools import chain

from interlock import errors
from interlock.doctor import checks
from interlock.doctor.facts import DatabaseFacts
from interlock.doctor.observation import observe
from interlock.doctor.probes import NAME, observe_servers
from interlock.doctor.result import Finding
from interlock.stores.dynamodb.address import parsed
from interlock.stores.postgres import connect
from interlock.stores.postgres.url import checked, target_session_attrs
from interlock.stores.scheme import scheme_of
from interlock.stores.sqlite.url import file_of

_STATEMENT_TIMEOUT = 10.0


async def examine(url: str, schema: str) -> list[Finding]:
    """Returns the findings. A database that cannot be reached is a finding too; only an unreadable URL is an error."""
    match scheme_of(url):
        case "sqlite":
            from interlock.doctor.sqlite import examine_file

            return examine_file(file_of(url))
        case "dynamodb":
            from interlock.doctor.dynamodb import examine_table

            return await examine_table(parsed(url))
    servers = await observe_servers(checked(url))
    named = [*checks.servers(servers, target_session_attrs(url)), *checks.clocks_of_servers(servers)]
    try:
        async with await connect(url, application_name=NAME, statement_timeout=_STATEMENT_TIMEOUT) as session:
            facts = await observe(session, url, schema)
    except errors.StoreError as error:
        return [checks.not_reached(error), *named]
    return [*judge(facts), *named]


def judge(facts: DatabaseFacts) -> Iterator[Finding]:
    return chain.from_iterable(check(facts) for check in checks.ALL)

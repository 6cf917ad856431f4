"""Leases broken on purpose, each in the SQL of one database, to show that the check of histories finds the fault.

What is broken in the Python of one process is in `support.worker_variants`.
"""

from support.postgres import execute
from support.protocol import rewrite

_TOKEN = "greatest(l.token + 1, (extract(epoch FROM moment) * 1000000)::bigint)"
_GRANT = "AND l.token = release_v1.token AND l.grant_id = release_v1.grant_id"
_FREE = (
    "UPDATE interlock.lease l\n       SET grant_id = NULL, expires_at = '-infinity',\n"
    "           queue_from = least(coalesce(first.enqueued_at, l.queue_from), moment)"
)
_DURABLY = "interlock.durably_v1()"


def clients_clock(url: str) -> None:
    """Requests use the client's clock, and the clock of workers with odd numbers is ahead."""
    ahead = "CASE WHEN pg_catalog.current_setting('application_name') ~ '[13579]$' THEN interval '2 s' ELSE '0' END"
    execute(
        url,
        "CREATE OR REPLACE FUNCTION interlock.now_v1() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE"
        f" AS $$ SELECT pg_catalog.clock_timestamp() + {ahead} $$",
    )


def no_guard(url: str) -> None:
    """The guard accepts every grant."""
    execute(
        url,
        "CREATE OR REPLACE FUNCTION interlock.guard_v1(lease_name text, lease_token bigint, lease_grant uuid)"
        " RETURNS void LANGUAGE sql AS ''",
    )


def guard_for_share(url: str) -> None:
    """The guard also blocks the holder's own renewals."""
    rewrite(url, "guard_v1", "FOR KEY SHARE", "FOR SHARE")


def release_by_name(url: str) -> None:
    """A previous holder may release a lease that another holder has by now."""
    rewrite(url, "release_v1", _GRANT, "", everywhere=True)


def release_by_holder(url: str) -> None:
    """The holder may release a lease by the release of an earlier grant."""
    holder = "regexp_replace(current_setting('application_name'), '^interlock [a-z]+ ', '')"
    rewrite(url, "release_v1", _GRANT, f"AND l.holder = {holder}", everywhere=True)


def delete_on_release(url: str) -> None:
    """A row exists only while its lease is held, and its token starts again with each row."""
    rewrite(url, "release_v1", _FREE, "DELETE FROM interlock.lease l")
    for function in ("acquire_v1", "acquire_many_v1"):
        rewrite(url, function, _TOKEN, "l.token + 1")


def renewals_that_do_not_wait_for_the_disk(url: str) -> None:
    rewrite(url, "renew_many_v1", _DURABLY, "NULL")


def grants_that_do_not_wait_for_the_disk(url: str) -> None:
    for function in ("acquire_v1", "acquire_many_v1", "release_v1"):
        rewrite(url, function, _DURABLY, "NULL")

"""docs/reference/protocol.md agrees with the functions of the schema, and its examples run in psql."""

import os
import re
import subprocess
from pathlib import Path

from interlock.embedded import find_binaries
from support.postgres import execute

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "protocol.md").read_text(encoding="utf-8")

# Without the trigger functions of the control plane's tables: no client calls them.
FUNCTIONS = "FROM pg_proc WHERE pronamespace = 'interlock'::regnamespace AND proname NOT LIKE '%%state_machine_v1'"
# Arguments in order, and results: both have names. Modes are NULL if there are only arguments.
ARGUMENTS = f"""
    SELECT proname, coalesce((SELECT string_agg(a.name, ', ' ORDER BY a.place)
                                FROM unnest(proargnames, proargmodes) WITH ORDINALITY AS a (name, mode, place)
                               WHERE coalesce(a.mode, 'i') = 'i'), '') {FUNCTIONS}
"""
RESULTS = f"""
    SELECT proname, a.name {FUNCTIONS.replace("pg_proc", "pg_proc, unnest(proargnames, proargmodes) AS a (name, mode)")}
       AND a.mode IN ('o', 't', 'b')
"""


def psql(url: str, script: str) -> str:
    pg_bin = os.environ.get("INTERLOCK_PG_BIN")
    program = find_binaries(Path(pg_bin) if pg_bin else None).tool("psql")
    command = [str(program), url, "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1"]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=True).stdout


def examples() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def test_exactly_the_functions_are_documented_with_their_arguments(interlock_url: str) -> None:
    signatures = {f"{name}({arguments})" for name, arguments in execute(interlock_url, ARGUMENTS)}
    assert len(signatures) > 20
    assert set(re.findall(r"`(\w+_v\d+\([^)]*\))`", PAGE)) == signatures
    assert set(re.findall(r"\b\w+_v\d+\b", PAGE)) == {signature.split("(")[0] for signature in signatures}


def test_every_result_is_documented_with_its_function(interlock_url: str) -> None:
    rows = {row.split("(")[0]: row for row in re.findall(r"^\| `(\w+_v\d+\(.*)\|$", PAGE, re.MULTILINE)}
    results = execute(interlock_url, RESULTS)
    assert len(results) > 30
    assert [(name, result) for name, result in results if f"`{result}`" not in rows[name]] == []


def test_every_status_and_code_is_documented(interlock_url: str) -> None:
    source = "\n".join(body for (body,) in execute(interlock_url, f"SELECT prosrc {FUNCTIONS}"))
    codes = set(re.findall(r"ERRCODE = '(\w+)'", source))
    statuses = set(re.findall(r"status := '([a-z ]+)'|THEN '([a-z ]+)'|ELSE '([a-z ]+)'", source))
    words = {word for found in statuses for word in found if word} | {"held back"}
    assert {"granted", "busy", "kept", "lost", "released"} <= words
    assert [word for word in words | codes if f"`{word}`" not in PAGE] == []


def test_its_example_acquires_a_lease_writes_under_it_and_releases_it(interlock_url: str) -> None:
    execute(interlock_url, "CREATE TABLE report (made_by bigint)")
    example = examples()[0]
    assert psql(interlock_url, example).split() == ["released"]
    [[token]] = execute(interlock_url, "SELECT token FROM interlock.leases_v1('nightly report') WHERE NOT held")
    assert execute(interlock_url, "SELECT made_by FROM report") == [(token,)]


def test_its_example_does_not_write_while_another_holds_the_lease(interlock_url: str) -> None:
    execute(interlock_url, "CREATE TABLE report (made_by bigint)")
    execute(interlock_url, "SELECT interlock.acquire_v1('nightly report', gen_random_uuid(), 30, 'another')")
    assert psql(interlock_url, examples()[0]) == "not now: busy\n"
    assert execute(interlock_url, "SELECT made_by FROM report") == []


def test_its_other_examples_run(interlock_url: str) -> None:
    renewing, listening = examples()[1:]
    taking = examples()[0].split("\\if")[0]
    assert psql(interlock_url, taking + renewing) == "renewed|30\n"
    assert psql(interlock_url, listening) == "t\n"

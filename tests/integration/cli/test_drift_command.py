"""`interlock instance drift` on a control plane with scripted answers."""

import json
from typing import Any

from support.scripted_server import Command, ScriptedServer, problem

DOWN: dict[str, Any] = {
    "id": 7,
    "kind": "wrong_state",
    "driver": "local",
    "instance": "5b0c",
    "name": "shop",
    "detail": "The record says running, but the instance is stopped.",
    "found_at": "2031-01-01T12:00:00Z",
    "closed_at": None,
    "repair": None,
}
STRAY = DOWN | {"id": 6, "kind": "orphan", "name": "", "instance": "9f\x1b[31m", "detail": "Unknown."}
COMPARISONS = [
    {"driver": "local", "looked_at": "2031-01-01T12:05:00Z", "trouble": ""},
    {"driver": "kubernetes", "looked_at": "2031-01-01T12:05:01Z", "trouble": "No answer."},
]


def test_drift_is_shown_with_the_time_of_each_comparison(script: ScriptedServer, run: Command) -> None:
    found = {"items": [DOWN, STRAY | {"closed_at": "2031-01-01T12:06:00Z"}], "looks": COMPARISONS}
    script.answers("GET /drift", found)
    told = run("drift", "--closed")
    assert told.stdout.splitlines() == [
        "7: shop, wrong_state, since 2031-01-01 12:00:00 UTC: The record says running, but the instance is stopped.",
        "6: 9f\\u001b[31m, orphan, since 2031-01-01 12:00:00 UTC, resolved since 2031-01-01 12:06:00 UTC: Unknown.",
        "The driver local was compared at 2031-01-01 12:05:00 UTC.",
        "The driver kubernetes was compared at 2031-01-01 12:05:01 UTC, with an error: No answer.",
    ]
    assert script.asked[-1].query["closed"] == ["true"]
    assert json.loads(run("drift", "--json").stdout) == found


def test_a_first_comparison_is_requested_by_look(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /drift", {"items": [], "looks": []})
    script.answers("POST /drift/look", {"items": [], "looks": COMPARISONS})
    assert run("drift").stdout == "No drift is known.\nNo driver has been compared yet: --look compares now.\n"
    assert script.lines() == ["GET /drift"]
    run("drift", "--look")
    assert script.lines() == ["GET /drift", "POST /drift/look", "GET /drift"]


def test_the_named_differences_are_repaired(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /drift/7/repair", DOWN | {"repair": "instance-5b0c-mend-1"})
    script.answers("POST /drift/6/repair", problem(404, "drift_unknown", "There is no open finding of drift 6."))
    script.answers("GET /drift", {"items": [DOWN, STRAY], "looks": COMPARISONS})
    told = run("drift", "--repair", "7")
    assert told.stdout == "7: instance-5b0c-mend-1 repairs it; the next comparison shows the result.\n"
    for orphan in ("6", "8"):  # 8 is not listed, so it may be one
        unasked = run("drift", "--repair", "7", "--repair", orphan)
        assert (unasked.exit_code, "use --yes to remove it" in unasked.stderr) == (2, True)
    assert script.lines().count("POST /drift/7/repair") == 1
    refused = run("drift", "--repair", "7", "--repair", "6", "--yes")
    assert (refused.exit_code, "drift 6" in refused.stderr) == (65, True)
    assert refused.stdout == told.stdout
    assert script.lines()[-1] == "POST /drift/6/repair"

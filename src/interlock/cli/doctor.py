"""``interlock doctor``: a look at a database before anyone trusts it."""

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.settings import database, database_options, loaded, run

if TYPE_CHECKING:
    from interlock.doctor import Finding

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@database_options
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(as_json: bool, **flags: Any) -> None:
    """Check a database before anyone trusts it. Changes nothing.

    Exits with 0 if there is no problem; else with what the first one calls for: 69 if the database cannot be reached
    or takes no writes, 77 if the role may not, 78 if something is to be set or applied.
    """
    from interlock.doctor import examine, exit_status, worst
    from interlock.stores.postgres import redacted

    settings = loaded(**flags)
    url = database(settings)
    if url.partition(":")[0].lower() == "dynamodb":
        from interlock.coordination.on_dynamodb import require_driver

        require_driver()
    findings = run(examine(url, settings.schema))
    status = exit_status(findings)
    if as_json:
        facts = {"database": redacted(url), "verdict": worst(findings).value, "exit_status": status}
        click.echo(json.dumps(facts | {"findings": [_as_facts(finding) for finding in findings]}))
    else:
        colour = False if os.environ.get("NO_COLOR") else None  # None: on a terminal
        click.echo("\n".join([redacted(url), *map(_as_text, findings), _summary(findings)]), color=colour)
    sys.exit(status)


def _as_facts(finding: "Finding") -> dict[str, Any]:
    return {
        "check": finding.check,
        "verdict": finding.verdict.value,
        "says": finding.says,
        "remedy": finding.remedy,
        "facts": dict(finding.facts),
    }


def _as_text(finding: "Finding") -> str:
    verdict = click.style(f"{finding.verdict:<9}", fg=_COLOURS[finding.verdict])
    remedy = f"\n{'':<22}→ {finding.remedy}" if finding.remedy else ""
    return f"{verdict}{finding.check:<13}{finding.says}{remedy}"


def _summary(findings: "list[Finding]") -> str:
    counts = {kind: sum(finding.verdict == kind for finding in findings) for kind in ("problem", "warning")}
    told = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts.items() if count]
    return " and ".join(told).capitalize() + "." if told else "Nothing to complain of."

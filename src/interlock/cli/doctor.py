"""``interlock doctor``: checks a database before it is used."""

import json
import os
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from interlock.cli.output import json_option
from interlock.cli.settings import database_options, load_settings, run, url_of_database
from interlock.cli.terminal import aligned_lines

if TYPE_CHECKING:
    from interlock.doctor import Finding

_LEFT_OUT = """The password is left out: give it in PGPASSWORD, or use the whole URL with eval "$(interlock env)"."""
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@database_options
@json_option
def doctor(as_json: bool, **flags: Any) -> None:
    """Check a database before it is used. The check changes nothing.

    Exits with 0 if there is no problem; otherwise with the status of the first problem: 69 if the database cannot be
    reached or takes no writes, 77 if the role lacks a right, 78 if a setting or the schema is wrong.
    """
    from interlock.doctor import examine, exit_status, worst
    from interlock.stores.postgres import redacted

    settings = load_settings(**flags)
    url = url_of_database(settings)
    if url.partition(":")[0].lower() == "dynamodb":
        from interlock.coordination.backends.dynamodb import require_driver

        require_driver()
    findings = run(examine(url, settings.schema))
    status = exit_status(findings)
    if as_json:
        facts = {"database": redacted(url), "verdict": worst(findings).value, "exit_status": status}
        click.echo(json.dumps(facts | {"findings": [_as_facts(finding) for finding in findings]}))
    else:
        colour = False if os.environ.get("NO_COLOR") else None  # None: on a terminal
        shown = [redacted(url), *_password_hint(url)]
        click.echo("\n".join([*shown, *_lines(findings), _summary(findings)]), color=colour)
    sys.exit(status)


def _password_hint(url: str) -> list[str]:
    return [_LEFT_OUT] if urlsplit(url).password else []


def _as_facts(finding: "Finding") -> dict[str, Any]:
    return {
        "check": finding.check,
        "verdict": finding.verdict.value,
        "says": finding.says,
        "remedy": finding.remedy,
        "facts": dict(finding.facts),
    }


def _lines(findings: "list[Finding]") -> list[str]:
    rows = [row for finding in findings for row in _rows(finding)]
    return [_coloured(line, row[0]) for line, row in zip(aligned_lines(rows), rows, strict=True)]


def _rows(finding: "Finding") -> list[tuple[str, str, str]]:
    remedy = [("", "", f"→ {finding.remedy}")] if finding.remedy else []
    return [(str(finding.verdict), finding.check, finding.says), *remedy]


def _coloured(line: str, verdict: str) -> str:
    return click.style(verdict, fg=_COLOURS[verdict]) + line.removeprefix(verdict) if verdict else line


def _summary(findings: "list[Finding]") -> str:
    counts = {kind: sum(finding.verdict == kind for finding in findings) for kind in ("problem", "warning")}
    found = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts.items() if count]
    return " and ".join(found).capitalize() + "." if found else "Nothing to complain of."

"""The documentation names all commands and options, and none that do not exist."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest

from interlock.cli import main

ROOT = Path(__file__).parents[2]
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name(doc: Path) -> str:
    return str(doc.relative_to(ROOT))


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name)


def found(path: tuple[str, ...]) -> click.Command | None:
    command: click.Command | None = main
    for name in path:
        if not isinstance(command, click.Group):
            return command
        command = command.get_command(click.Context(command), name)
    return command


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_every_command_is_documented(path: tuple[str, ...]) -> None:
    assert any(f"interlock {' '.join(path)}" in re.sub(r"\s+", " ", doc.read_text()) for doc in DOCS)


@pytest.mark.parametrize("doc", DOCS, ids=name)
def test_every_documented_command_exists(doc: Path) -> None:
    quoted = "\n".join(re.findall(r"`+([^`]+)`+", doc.read_text()))
    for words in re.findall(r"\binterlock ((?:[a-z]+(?:-[a-z]+)* ?)+)", quoted):
        path = tuple(words.split())[:2]
        if path[0] in main.list_commands(click.Context(main)):
            assert found(path) is not None, words


@pytest.mark.parametrize(
    ("path", "page"),
    [
        (("gate", "run"), "gate.md"),
        (("instance", "create"), "cli-instances.md"),
        (("lock", "run"), "lock-run.md"),
        (("up",), "up.md"),
    ],
)
def test_every_option_of_the_main_commands_is_documented(path: tuple[str, ...], page: str) -> None:
    text = (ROOT / "docs" / "how-to" / page).read_text() + (ROOT / "docs" / "reference" / "settings.md").read_text()
    command = found(path)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert any(f"`{flag}" in text or f"[{flag}" in text for flag in parameter.opts), parameter.opts


@pytest.mark.parametrize("doc", DOCS, ids=name)
def test_every_link_has_a_target(doc: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#]*)(#[^)]*)?\)", doc.read_text()):
        if target.startswith("https://"):
            continue
        page = doc.parent / target if target else doc
        assert page.exists(), target
        assert not heading or heading in anchors(page), (target, heading)


def anchors(page: Path) -> set[str]:
    """The links to a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {"#" + re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {str(page.relative_to(ROOT / "docs")) for page in DOCS if page.is_relative_to(ROOT / "docs")}
    assert set(re.findall(r"\]\(([a-z-]+/[^)#]+\.md)\)", index)) == pages - {"README.md"}


def invocations(doc: Path) -> Iterator[tuple[click.Command, list[str]]]:
    """Each `interlock` command that a page shows, with its arguments, up to the next other command."""
    for line in re.findall(r"\binterlock ([a-z][^`\n]*)", doc.read_text().replace("\\\n", " ")):
        words = re.split(r"\s+(?:--|\||&&|#|;|&)(?:\s|$)", line)[0].replace("[", " ").replace("]", " ").split()
        command: click.Command | None = main
        while isinstance(command, click.Group) and words:
            command = command.get_command(click.Context(command), words.pop(0))
        if command is not None and not isinstance(command, click.Group):
            yield command, words


@pytest.mark.parametrize("doc", DOCS, ids=name)
def test_every_documented_option_exists_and_accepts_its_value(doc: Path) -> None:
    for command, words in invocations(doc):
        options = {flag: one for one in command.params if isinstance(one, click.Option) for flag in one.opts}
        for flag, value in pairwise([*words, ""]):
            if not re.fullmatch(r"--[a-z][a-z-]*", flag) or flag == "--help":
                continue
            assert flag in options, (command.name, words)
            if isinstance(options[flag].type, click.Choice):
                for one in value.split("|"):
                    options[flag].type.convert(one, None, None)

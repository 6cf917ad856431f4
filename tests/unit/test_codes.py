"""The vocabulary of codes contains every code in use, and docs/reference/api.md lists them all."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import interlock
from interlock import errors
from interlock.codes import CODES, ERROR_CODES, OTHER_CODES, known_code
from interlock.durable.failures import ActivityFailure
from interlock.errors import DoNotRetry, InterlockError, code_of_class

PACKAGE = Path(interlock.__file__).parent
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
FILES = [name for name in FILES if not name.startswith("stores/")]  # their codes are those of other systems
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
BY_POSITION = {"Failure", "ActivityFailure", "_unauthorized"}
"""Functions whose first argument is a code; elsewhere a code is passed as `code=`."""
SQLSTATE = re.compile(r"[0-9A-Z]{5}")


def used(name: str) -> Iterator[str]:
    """The literal codes in a file: passed, compared or declared. ``not_*`` is the beginning of an f-string."""
    for node in ast.walk(ast.parse((PACKAGE / name).read_text("utf-8"))):
        match node:
            case ast.Call():
                yield from _texts(keyword.value for keyword in node.keywords if keyword.arg == "code")
                if isinstance(node.func, ast.Name) and node.func.id in BY_POSITION:
                    yield from _texts(node.args[:1])
            case ast.Compare() if _is_code(node.left):
                yield from _texts(node.comparators)
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
                if _is_code(target) and value is not None:
                    yield from _texts([value])


def _is_code(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr="code") | ast.Name(id="code") | ast.Subscript(slice=ast.Constant(value="code")):
            return True
    return False


def _texts(nodes: Iterable[ast.expr]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if text and not SQLSTATE.fullmatch(text):
                yield text
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
                yield f"{text}*"


@pytest.mark.parametrize("name", FILES)
def test_a_file_uses_no_code_outside_the_vocabulary(name: str) -> None:
    for code in used(name):
        assert code in CODES or (code.endswith("*") and any(one.startswith(code[:-1]) for one in CODES))


def test_the_scan_finds_the_places_where_codes_are_written() -> None:
    assert {"vanished", "outcome_unknown", "key_wrong", "not_*", "idempotency_key_missing", "invalid_request"} <= {
        code for name in FILES for code in used(name)
    }


def test_every_code_is_used() -> None:
    literals = {code for name in FILES for code in used(name)}
    assert {code for code in OTHER_CODES if code not in literals and not code.startswith("not_")} == {"timeout_error"}


def test_codes_are_words_in_snake_case_and_each_means_one_thing() -> None:
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in CODES)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, InterlockError)]
    shared = {code for code, count in Counter(kind.code for kind in kinds).items() if count > 1}
    assert shared == {"error"}  # these two have no code of their own
    assert {kind for kind in kinds if kind.code == "error"} == {InterlockError, DoNotRetry}
    assert not ERROR_CODES.keys() & OTHER_CODES.keys()


def test_the_document_lists_every_code_once() -> None:
    section = re.search(r"^### Codes$(.*?)^Unknown fields", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert section is not None
    rows = [line for line in section[1].splitlines() if line.startswith("| ") and "`" in line]
    listed = Counter(code for row in rows for code in re.findall(r"`([a-z_]+)`", row))
    assert listed == dict.fromkeys(CODES, 1)


@pytest.mark.parametrize(
    ("name", "code"),
    [("NameTaken", "name_taken"), ("TlsUnavailable", "tls_unavailable"), ("OSError", "os_error"), ("Bug", "bug")],
)
def test_the_code_of_a_class_is_its_name_in_snake_case(name: str, code: str) -> None:
    assert code_of_class(name) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.BadSpec("No."), "bad_spec"),
        (DoNotRetry("No."), "error"),
        (DoNotRetry("No.", code="sold_out"), "sold_out"),
        (errors.RecordOvertaken("No."), "record_overtaken"),
        (ValueError("No."), "value_error"),
        (TimeoutError(), "timeout_error"),
    ],
)
def test_a_failed_activity_has_the_code_of_its_error(error: Exception, code: str) -> None:
    assert ActivityFailure.of(error).code == code


def test_a_code_outside_the_vocabulary_becomes_error() -> None:
    assert [known_code(code) for code in ("bad_spec", "not_running", "value_error")] == [
        "bad_spec",
        "not_running",
        "error",
    ]

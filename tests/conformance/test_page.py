"""docs/reference/stores.md says what this suite shows, and its example runs."""

import re
import sqlite3
from pathlib import Path

from conformance.__main__ import BEGIN, END, PAGE, Line, put_into, table
from conformance.stores import KINDS

HERE = Path(__file__).parent


def written() -> list[list[str]]:
    inside = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.splitlines() if line]


def test_the_page_has_a_line_for_every_guarantee_and_a_column_for_every_store() -> None:
    """If not: python -m tests.conformance"""
    header, _, *lines = written()
    assert header[2:] == list(KINDS)
    sentences = [
        match[1]
        for file in HERE.glob("test_*.py")
        for match in re.finditer(r'mark\.guarantee\([^,]+, "([^"]+)"\)', file.read_text())
    ]
    assert {line[1] for line in lines} == set(sentences)


def test_a_gap_names_a_guarantee_of_the_suite() -> None:
    sentences = {line[1] for line in written()}
    for kind in KINDS.values():
        assert set(kind.gaps) <= sentences


def test_a_guarantee_that_one_test_does_not_show_is_not_shown() -> None:
    cells = {
        Line("lease", "b"): {"X": {"yes"}, "Y": {"yes", "not shown"}},
        Line("lease", "a"): {"X": {"yes", "**no**"}, "Y": {"because of this"}},
    }
    assert table(cells) == (
        "| primitive | guarantee | X | Y |\n| --- | --- | --- | --- |\n"
        "| lease | a | **no** | because of this |\n| lease | b | yes | not shown |\n"
    )
    page = put_into(f"before\n{BEGIN}old\n{END}after\n", "new\n")
    assert page == f"before\n{BEGIN}\nnew\n\n{END}after\n"


def test_the_example_runs(tmp_path: Path) -> None:
    [example] = [code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "sqlite:" in code]
    namespace: dict[str, object] = {}
    exec(example.replace("/var/lib/shop", str(tmp_path)), namespace)  # noqa: S102
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("CREATE TABLE stock (counted INTEGER)")
    connection.execute("INSERT INTO stock VALUES (0)")
    connection.commit()
    import_feeds, locks = namespace["import_feeds"], namespace["locks"]
    assert callable(import_feeds)
    import_feeds(connection)
    assert connection.execute("SELECT counted FROM stock").fetchone() == (1,)
    connection.close()
    locks.close()  # type: ignore[attr-defined]

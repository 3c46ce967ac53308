"""Every table fits 80 columns, and the filters of `coordinator list`."""

import re

import pytest
from rich.cells import cell_len

from coordinator.cli.render import show_claims, show_rows
from emunode.algorithms.registry import registered
from tests.helpers.command_line import Call

pytestmark = pytest.mark.usefixtures("terminal_width")
STAR = "--topology star:4 --collective broadcast --driver memory"


@pytest.fixture
def terminal_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def table_lines(text: str) -> list[str]:
    """Return the lines of the tables: each begins with a blank, and a rule is below its heading."""
    lines = text.splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("───")]
    found = []
    for rule in rules:
        end = next((number for number in range(rule, len(lines)) if not lines[number].strip()), len(lines))
        found += lines[rule - 1 : end]
    return found


TABLES = (
    "list topologies",
    "list algorithms",
    "list algorithms replicated-balanced-tree",
    "list faults",
    f"plan {STAR} --algorithm greedy-tree",
    f"run {STAR} --algorithm greedy-tree",
    f"run {STAR} --algorithm greedy-tree --claims",
    f"campaign {STAR} --vary algorithm=edt,greedy-tree --faults nodes=0..2 --trials 10",
    f"certify {STAR} --algorithm edt --redundancy 3 --faults 'nodes<=1'",
    "sweep --topology hypercube:4,star:4 --algorithm edge-disjoint-trees,bfs-tree",
    "doctor",
    "reproduce",
    "reproduce johnsson-ho-graphs --n 3",
    "compare edt greedy-tree flood",
    "compare edt greedy-tree --all",
)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("line", TABLES)
def test_tables_fit_80_columns(call: Call, line: str) -> None:
    if line.startswith("compare"):
        for algorithm in line.removesuffix(" --all").split()[1:]:
            call(f"run {STAR} --algorithm {algorithm} --out {algorithm}")
    lines = table_lines(call(line).out)
    assert lines
    assert max(map(cell_len, lines)) <= 80
    assert not [line for line in lines if "…" in line]


def test_sources_of_claims_are_listed_in_full_below_the_table(call: Call) -> None:
    text = call(f"run {STAR} --algorithm greedy-tree --claims").out
    sources = text[text.index("\n\n") :]
    assert "delivered 23 of 23 in " in text
    assert "     Tseng-Sheu 1997, section 6.1:\n" in sources
    assert "    T = (h + p - 1)(Ts + m/p Tc)\n" in sources
    numbers = re.findall(r"^ *(\d+)  ", sources, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]


def test_one_claim_of_two_sources_is_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    claim = {"name": "steps", "relation": "<=", "predicted": 4}
    show_claims([claim | {"source": "one"}, claim | {"source": "other"}, claim | {"source": "one", "predicted": 5}])
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(" steps")]
    assert rows == [["steps", "<=", "4", "1,", "2"], ["steps", "<=", "5", "1"]]


def test_lines_in_a_pipe_are_whole(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    show_rows("", [{"heading": "é" * 99, "remedy": "some words " * 20}])
    assert len(capsys.readouterr().out.splitlines()) == 4  # heading, rule, row, blank


# --- filters ---------------------------------------------------------------------------------------------------------


def test_algorithms_are_filtered(call: Call) -> None:
    rows = call("list algorithms --topology star:5 --collective broadcast --json").data
    assert {(row["topology"], row["collective"]) for row in rows} == {("star", "broadcast")}
    assert {"greedy-tree", "edt", "flood"} <= {row["algorithm"] for row in rows}
    assert "algorithms on star" in call("list algorithms --collective alltoall").out


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("name", sorted({entry.name for _, entry in registered()}))
def test_every_algorithm_is_described_with_claims_on_an_example(call: Call, name: str) -> None:
    described = call(f"list algorithms {name} --json").data
    assert described
    for each in described:
        assert each["documentation"]
        assert each["duplexes"]
        assert each["example"]
        assert each["claims"]


def test_an_algorithm_is_described_in_words(call: Call) -> None:
    text = call("list algorithms EDT --collective broadcast").out
    for words in (
        "edt: broadcast on star",
        "M messages, each down x of the n-1 trees",
        "port models: all-port",
        "claims on",
    ):
        assert words in text


pytestmark = pytest.mark.usefixtures("terminal_width")


@pytest.mark.parametrize("heading", ["guaranteed delivery", "ratio"])
def test_words_that_fit_stay_whole(capsys: pytest.CaptureFixture[str], heading: str) -> None:
    rows = [dict.fromkeys([heading, *"abcdef"], "0.111 to 0.222 without a limit"), {heading: "delivered", "a": "late"}]
    show_rows("", [dict.fromkeys(rows[0], "") | row for row in rows])
    words = [word for line in capsys.readouterr().out.splitlines() for word in line.split()]
    assert set(words) - {word for word in words if set(word) == {"─"}} == {
        *heading.split(), *"abcdef", "0.111", "to", "0.222", "without", "a", "limit", "delivered", "late",
    }  # fmt: skip


def test_optional_columns_give_way_to_whole_words(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "x" * 28, "nodes": "24", "value": "y" * 40, "bound": "4"}
    show_rows("", [row], optional=["nodes", "bound"])
    assert capsys.readouterr().out.split()[:3] == ["name", "value", "bound"]
    show_rows("", [row | {"value": "y" * 20}], optional=["nodes", "bound"])
    assert capsys.readouterr().out.split()[:4] == ["name", "nodes", "value", "bound"]


def test_long_words_are_broken_and_not_cropped(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows("", [{"heading": "x" * 70, "remedy": "y" * 40}])
    text = capsys.readouterr().out
    assert (text.count("x"), text.count("y") - 1) == (70, 40)
    assert max(map(cell_len, text.splitlines())) <= 80

"""Reproductions: what a row, a table, a page and the command are; and the star graph beside the hypercube."""

import csv
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from coordinator.claims import Verdict
from coordinator.cli import main
from coordinator.papers import document
from coordinator.papers.base import Figure, Lab, Reproduction, Section, Table, compared, laboratory, verdict_of
from coordinator.papers.document import Reproduced, write
from coordinator.papers.registry import REPRODUCTIONS, find_reproduction
from coordinator.papers.star_against_hypercube import IN_PARTS, PROBLEMS, QUANTITIES, bound_row, necklace_distances
from emunode.errors import RunError, ScenarioError
from emunode.topology.hypercube import Hypercube

GOLDEN = Path(__file__).parent.parent / "golden" / "star" / "hypercube_bounds.csv"
NAMES = {"multinode broadcast": "MNB", "single node scatter": "SNS", "total exchange": "TE"}
BROADCAST = {"topology": "star:3", "collective": "broadcast", "algorithm": "greedy-tree"}


@pytest.fixture
def lab() -> Iterator[Lab]:
    with laboratory(lambda *_: None) as opened:
        yield opened


# --- rows and runs ---------------------------------------------------------------------------------------------------


def test_a_row_sets_print_prediction_measurement_and_bound_side_by_side() -> None:
    row = compared(12, 12, paper="3n", bound=8)
    assert list(row) == ["paper", "predicted", "measured", "lower bound", "ratio", "verdict"]
    assert (row["paper"], row["ratio"], row["verdict"]) == ("3n", 1.5, "holds")


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (compared(12, 13), "violated"),
        (compared(12, 13, relation=">="), "holds"),
        (compared(12, 13, relation="<="), "violated"),
        (compared(7, 7, bound=8), "violated"),
        (compared((1, 2), (1, 3)), "violated"),
        (compared(0.1 + 0.2, 0.3), "holds"),
    ],
)
def test_a_row_is_judged(row: dict[str, object], verdict: str) -> None:
    assert row["verdict"] == verdict


def test_a_run_that_breaks_its_claims_or_proves_nothing_decides_the_row(lab: Lab) -> None:
    undecided = lab.run(**BROADCAST, step_limit=1)
    assert compared(1, 1, undecided)["verdict"] == "undecided"
    holds = lab.run(**BROADCAST)
    assert holds.verdict is Verdict.HOLDS
    assert compared(holds.number("steps"), 3, holds)["verdict"] == "holds"


def test_verdicts_together() -> None:
    assert verdict_of([]) is Verdict.HOLDS
    assert verdict_of([Verdict.HOLDS, Verdict.UNDECIDED]) is Verdict.UNDECIDED
    assert verdict_of([Verdict.UNDECIDED, Verdict.VIOLATED, Verdict.HOLDS]) is Verdict.VIOLATED


def test_a_scenario_runs_once_and_its_tables_can_be_read(lab: Lab) -> None:
    once = lab.run(**BROADCAST)
    assert lab.run(**BROADCAST) is once
    assert lab.run(**BROADCAST, seed=1) is not once
    assert once.series("receivers_per_step") == [2, 2, 1]
    assert len(once.journal().collect()) == once.table("links")["segments"].sum() == once.number("segments") == 5
    assert not (once.path / "report.html").exists()


def test_run_directories_are_gone_afterwards_and_time_is_kept() -> None:
    with laboratory(lambda *_: None) as lab:
        path = lab.run(**BROADCAST).path
    assert not path.exists()
    with laboratory(lambda *_: None, lambda: True) as lab, pytest.raises(RunError, match="time is over"):
        lab.run(**BROADCAST)


def test_sizes_are_all_or_the_one_that_is_asked_for() -> None:
    sized = Reproduction("a", "A", "P", "D", lambda _: iter(()), range(3, 6))
    assert list(sized.over(None)) == [3, 4, 5]
    assert list(sized.over(4)) == [4]
    with pytest.raises(ScenarioError, match=r"a goes over 3\.\.5"):
        sized.over(6)
    with pytest.raises(ScenarioError, match="leave --n out"):
        replace(sized, sizes=range(0)).over(3)


# --- pages -----------------------------------------------------------------------------------------------------------


def sample(*sections: Section) -> Reproduced:
    about = Reproduction("sample", "A <sample>", "Nobody 1999", "Shows.", lambda _: iter(sections))
    return Reproduced(about, list(sections))


def test_a_page_holds_every_table_and_figure_and_each_table_is_a_file(tmp_path: Path) -> None:
    table = Table("Table 1: steps & more", [{"n": 3, **compared(12, 13, paper="4n <sic>")}], ["† it is 4n + 1"])
    done = sample(table, Figure("Figure 1", "<svg></svg>", "a & b"), Table("empty", []))
    page, *tables = write([done, sample(Table("other", [{"a": 1}]))], tmp_path / "new" / "folder")
    text = page.read_text()
    for part in (
        "A &lt;sample&gt;",
        "Table 1: steps &amp; more",
        "4n &lt;sic&gt;",
        "it is 4n + 1",
        "<svg></svg>",
        "a &amp; b",
    ):
        assert part in text, part
    assert 'class="verdict violated"' in text
    assert "http:" not in text
    assert "https:" not in text
    assert [path.name for path in tables] == [
        "sample-01-table-1-steps-more.csv",
        "sample-02-empty.csv",
        "sample-01-other.csv",
    ]
    with tables[0].open() as file:
        assert next(csv.DictReader(file))["verdict"] == "violated"


def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match="out"):
        write([sample()], tmp_path / "file")
    assert main(["reproduce", "star-against-hypercube", "--out", str(tmp_path / "file")]) == 2
    (tmp_path / document.PAGE).mkdir()
    with pytest.raises(ScenarioError, match="out"):
        write([sample()], tmp_path)


# --- the command -----------------------------------------------------------------------------------------------------


def test_every_reproduction_is_named_as_it_is_registered() -> None:
    assert all(name == about.name and about.paper and about.description for name, about in REPRODUCTIONS.items())


def test_the_documentation_names_every_reproduction_and_its_example_runs(lab: Lab) -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "reproduce.md").read_text()
    assert all(f"`{name}`" in text for name in REPRODUCTIONS)
    start = text.index("    def build(")
    made: dict[str, object] = {
        "Lab": Lab,
        "Table": Table,
        "Section": Section,
        "Iterator": Iterator,
        "compared": compared,
    }
    exec(compile(dedent(text[start : text.index("\n`coordinator/papers/base.py` says")]), "reproduce.md", "exec"), made)
    (table,) = made["build"](replace(lab, sizes=[3, 4]))  # type: ignore[operator]
    assert [row["measured"] for row in table.rows] == [3, 4]
    assert verdict_of(table.verdicts) is Verdict.HOLDS


def test_without_a_name_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == list(REPRODUCTIONS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["table-99"], "star-against-hypercube"),
        (["star-agains-hypercube"], "did you mean"),
        (["star-against-hypercube", "--all"], "not both"),
        (["star-against-hypercube", "--n", "9"], "3..5"),
        (["star-against-hypercube", "--n", "x"], "--n"),
        (["star-against-hypercube", "--minutes", "0"], "above 0"),
        (["star-against-hypercube", "--minutes", "nan"], "above 0"),
        (["--all", "--n", "3"], "every size"),
        (["--out", "x"], "--all, or one of"),
    ],
)
def test_what_is_refused(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_exit_status_output_and_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"n": 3, **compared(1, 1)}]

    def build(lab: Lab) -> Iterator[Section]:
        assert list(lab.sizes) == [3]
        yield Table("a table", rows, ["† a note"])
        yield Figure("a figure", "<svg></svg>")

    monkeypatch.setitem(REPRODUCTIONS, "tried", Reproduction("tried", "T", "P", "D", build, range(3, 4)))
    assert main(["reproduce", "tried", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "a table" in out
    assert "a note" in out
    assert "a figure" in out
    assert "1 of 1 rows hold" in out
    assert len(list(tmp_path.iterdir())) == 2
    for predicted, status in ((2, 1), (1, 0)):
        rows[:] = [{"n": 3, **compared(predicted, 1)}]
        assert main(["reproduce", "tried", "--json"]) == status
        assert json.loads(capsys.readouterr().out)[0]["tables"][0]["rows"][0]["measured"] == 1


def fail() -> None:
    raise RunError("no memory")


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("end", "status"), [(interrupt, 130), (fail, 4)])
def test_what_was_done_before_an_error_is_kept_and_undecided(
    end: Callable[[], None], status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def build(_: Lab) -> Iterator[Section]:
        yield Table("before", [{"n": 3, **compared(1, 1)}])
        end()

    monkeypatch.setitem(REPRODUCTIONS, "tried", Reproduction("tried", "T", "P", "D", build))
    assert main(["reproduce", "tried", "--out", str(tmp_path)]) == status
    text = (tmp_path / document.PAGE).read_text()
    assert "before" in text
    assert "cut short" in text
    assert 'class="verdict undecided"' in text


# --- the star graph beside the hypercube -----------------------------------------------------------------------------


def golden() -> list[dict[str, str]]:
    with GOLDEN.open() as file:
        return [row for row in csv.DictReader(file) if row["problem"] in NAMES.values()]


@pytest.mark.parametrize("row", golden(), ids=lambda row: f"C_{row['k']}-{row['problem']}")
def test_bounds_of_table_5(row: dict[str, str]) -> None:
    problem = next(problem for problem in PROBLEMS if NAMES[problem.name] == row["problem"])
    network = Hypercube(int(row["k"]))
    assert problem.transmissions(network) == int(row["transmissions"])
    assert problem.one_port(network) == int(row["time_SLA"])
    assert -(-problem.all_port(network) // 1) == int(row["time_MLA"])


@pytest.mark.parametrize("n", [3, 4])
def test_star_and_hypercube_meet_their_bounds(n: int, lab: Lab) -> None:
    about = find_reproduction("star-against-hypercube")
    for table in about.build(replace(lab, sizes=about.over(n))):
        assert isinstance(table, Table)
        assert len(table.rows) == 12 + n - 1
        assert verdict_of(table.verdicts) is Verdict.HOLDS, table
        for row in table.rows:
            for network in (f"S_{n}", f"C_{ {3: 3, 4: 5}[n] }"):
                assert row[f"{network} measured"] >= row[f"{network} bound"], row  # type: ignore[operator]


@pytest.mark.parametrize(
    "row", [row for row in golden() if int(row["k"]) <= 5], ids=lambda row: f"C_{row['k']}-{row['problem']}"
)
def test_whole_messages_on_the_hypercube_take_what_table_5_prints(row: dict[str, str], lab: Lab) -> None:
    """In the unit of the paper no run undercuts a bound, and in prime dimensions SBnT meets those of the first two."""
    k = int(row["k"])
    problem = next(problem for problem in PROBLEMS if NAMES[problem.name] == row["problem"])
    found = {quantity: bound_row(lab, Hypercube(k), problem, quantity) for quantity in QUANTITIES}
    assert found["transmissions"]["measured"] == int(row["transmissions"])
    assert found["one-port time"]["measured"] == int(row["time_SLA"])
    measured, bound = found["all-port time"]["measured"], int(row["time_MLA"])
    assert isinstance(measured, int)
    assert measured >= bound
    if k != 4:
        assert measured == (bound if problem.name != "total exchange" else bound + k - 1)
        assert {entry["verdict"] for entry in found.values()} == {"holds"}


def test_parts_of_messages_have_a_bound_of_their_own(lab: Lab) -> None:
    for problem in PROBLEMS:
        row = bound_row(lab, Hypercube(3), problem, IN_PARTS)
        assert row["measured"] == row["lower bound"] == {"MNB": 2.333, "SNS": 2.333, "TE": 4}[NAMES[problem.name]]
        assert row["paper"] is None


@pytest.mark.parametrize("k", range(2, 9))
def test_distances_of_necklaces_of_the_hypercube(k: int) -> None:
    """Counted by orbits, one node after the other."""
    left, total = set(range(1 << k)), 0
    while left:
        label = left.pop()
        total += label.bit_count()
        for _ in range(k):
            label = label >> 1 | (label & 1) << (k - 1)
            left.discard(label)
    assert necklace_distances(k) == total
    if k in (3, 5, 7):
        assert total == 2 ** (k - 1) + k - 1

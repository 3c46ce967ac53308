"""Reproductions: rows, tables, pages and the command; and the star graph compared with the hypercube."""

import csv
import json
import re
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from coordinator.annexes.papers import document
from coordinator.annexes.papers.base import Figure, Reproduction, Section
from coordinator.annexes.papers.costs import RunEstimate, cost_of, duration
from coordinator.annexes.papers.document import Reproduced, write
from coordinator.annexes.papers.fragopoulou_akl.star_against_hypercube import (
    IN_PARTS,
    PROBLEMS,
    QUANTITIES,
    bound_row,
    lower_bound,
    necklace_distances,
    networks,
    rows_of_network,
)
from coordinator.annexes.papers.registry import REPRODUCTIONS, find_reproduction
from coordinator.annexes.papers.rehearsal import count_runs
from coordinator.annexes.papers.run_cache import RunCache, open_run_cache
from coordinator.annexes.papers.tables import Table, compared, counts_of, row_verdict, unmeasured, verdict_of
from coordinator.cli.invoke import main
from coordinator.results.claims import Verdict
from emunode.errors import RunError, ScenarioError
from emunode.topologies.hypercube import Hypercube
from tests.annexes.papers.support import golden

NAMES = {"MNB": "multinode broadcast", "SNS": "single node scatter", "TE": "total exchange"}
BROADCAST = {"topology": "star:3", "collective": "broadcast", "algorithm": "greedy-tree"}


# --- rows and runs ---------------------------------------------------------------------------------------------------


def test_a_row_shows_print_prediction_measurement_and_bound() -> None:
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
def test_the_verdict_of_a_row(row: dict[str, object], verdict: str) -> None:
    assert row["verdict"] == verdict


@pytest.mark.parametrize("relation", ["==", ">=", "<="])
@pytest.mark.parametrize(("predicted", "measured"), [(1, 1), (1, 2), (2, 1)])
def test_an_undecided_run_makes_its_row_undecided(
    predicted: int, measured: int, relation: str, run_cache: RunCache
) -> None:
    undecided, holds = run_cache.run(**BROADCAST, step_limit=1), run_cache.run(**BROADCAST)
    assert compared(predicted, measured, undecided, relation=relation)["verdict"] == "undecided"
    assert compared(predicted, measured, holds, undecided, relation=relation, bound=9)["verdict"] == "undecided"
    assert row_verdict(False, trials=[undecided, holds]) is row_verdict(False, trials=[undecided]) is Verdict.UNDECIDED
    assert row_verdict(False, trials=[holds]) is Verdict.VIOLATED
    assert row_verdict(True, trials=[undecided], refuted=True) is Verdict.UNDECIDED


def test_a_negative_control_must_be_refuted(run_cache: RunCache) -> None:
    holds = run_cache.run(**BROADCAST)
    assert holds.verdict is Verdict.HOLDS
    assert compared(holds.number("steps"), 3, holds)["verdict"] == "holds"
    violated = run_cache.run("ej:2+3", "broadcast", "improved-printed")
    assert violated.verdict is Verdict.VIOLATED
    assert row_verdict(True, trials=[violated], refuted=True) is Verdict.HOLDS
    assert row_verdict(True, trials=[violated]) is Verdict.VIOLATED
    assert row_verdict(True, trials=[holds], refuted=True) is Verdict.VIOLATED
    assert row_verdict(False, trials=[violated], refuted=True) is Verdict.VIOLATED


# --- statuses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ({"predicted": 1, "measured": 1, "verdict": "holds"}, "holds"),
        ({"predicted": 1, "measured": None, "verdict": "holds"}, "evaluated"),
        ({"predicted": 1, "measured": None, "verdict": "violated"}, "violated"),
        ({"predicted": 1, "measured": None, "verdict": "undecided"}, "undecided"),
        ({"predicted": 1, "measured": None, "verdict": None}, "evaluated"),
        ({"predicted": None, "measured": None, "verdict": None}, "not measured"),
        ({"predicted": None, "measured": 3, "verdict": None}, "no claim"),
        ({"predicted": None, "measured": 3, "verdict": "evaluated"}, "no claim"),
        ({"measured": None, "verdict": "not measured"}, "not measured"),
    ],
)
def test_a_row_without_a_measurement_never_holds(row: dict[str, object], status: str) -> None:
    assert Table("a", [row]).statuses == [status]
    renamed = {"seen" if key == "measured" else key: value for key, value in row.items()}
    assert Table("a", [renamed], measurement="seen").statuses == [status]


def test_a_table_without_verdicts_counts_nothing() -> None:
    table = Table("a", [{"n": 1, "measured": None}])
    assert table.statuses == table.verdicts == []
    assert set(counts_of([table]).values()) == {0}


def test_rows_are_counted_by_status_everywhere(tmp_path: Path) -> None:
    rows = [
        {"n": 1, **compared(1, 1)},
        {"n": 2, **compared(1, 2)},
        {"n": 3, **unmeasured(3, paper="n")},
        {"n": 4, **unmeasured(4)} | {"predicted": None, "verdict": None},
        {"n": 5, **compared(1, 1)},
    ]
    done = sample(Table("mixed", rows))
    wanted = {"holds": 2, "violated": 1, "undecided": 0, "evaluated": 1, "not measured": 1, "no claim": 0}
    assert done.counts == wanted
    assert done.counted == "rows: 2 hold, 1 violated, 1 only evaluated, 1 not measured"
    record = json.loads(json.dumps(done.record()))
    assert record["counts"] == record["tables"][0]["counts"] == wanted
    page, table = write([done], tmp_path)
    assert done.counted in page.read_text()
    with table.open() as file:
        assert [row["verdict"] for row in csv.DictReader(file)] == Table("", rows).statuses


def test_only_evaluated_rows_are_undecided() -> None:
    assert sample(Table("only evaluated", [{"n": 3, **unmeasured(3)}])).verdict is Verdict.UNDECIDED
    assert sample(Figure("Figure 1", "<svg></svg>")).verdict is Verdict.HOLDS


def test_the_worst_verdict_wins() -> None:
    assert verdict_of([]) is Verdict.HOLDS
    assert verdict_of([Verdict.HOLDS, Verdict.UNDECIDED]) is Verdict.UNDECIDED
    assert verdict_of([Verdict.UNDECIDED, Verdict.VIOLATED, Verdict.HOLDS]) is Verdict.VIOLATED


def test_a_scenario_runs_once_and_its_tables_can_be_read() -> None:
    with open_run_cache() as run_cache:
        require_one_run(run_cache)


def require_one_run(run_cache: RunCache) -> None:
    once = run_cache.run(**BROADCAST)
    assert run_cache.run(**BROADCAST) is once
    assert run_cache.run(**BROADCAST, source="123") is once
    assert run_cache.run(**BROADCAST, seed=1) is not once
    assert (run_cache.runs, len(run_cache.requests)) == (2, 4)
    assert once.series("receivers_per_step") == [2, 2, 1]
    assert len(once.journal().collect()) == once.table("links")["segments"].sum() == once.number("segments") == 5
    assert not (once.path / "report.html").exists()


def test_runs_are_deleted_and_the_time_limit_is_enforced() -> None:
    with open_run_cache() as run_cache:
        path = run_cache.run(**BROADCAST).path
    assert not path.exists()
    with (
        open_run_cache(lambda *_: None, lambda: True) as run_cache,
        pytest.raises(RunError, match="time limit reached"),
    ):
        run_cache.run(**BROADCAST)


def test_a_reproduction_covers_all_sizes_or_the_requested_one() -> None:
    sized = Reproduction("a", "A", "P", "D", lambda _: iter(()), range(3, 6))
    assert list(sized.over(None)) == [3, 4, 5]
    assert list(sized.over(4)) == [4]
    with pytest.raises(ScenarioError, match=r"a covers n = 3\.\.5"):
        sized.over(6)
    with pytest.raises(ScenarioError, match="leave --n out"):
        replace(sized, sizes=range(0)).over(3)


# --- pages -----------------------------------------------------------------------------------------------------------


def sample(*sections: Section) -> Reproduced:
    about = Reproduction("sample", "A <sample>", "Author 1999", "Shows.", lambda _: iter(sections))
    return Reproduced(about, list(sections))


def test_a_page_holds_every_table_and_figure(tmp_path: Path) -> None:
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


def test_a_page_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match="out"):
        write([sample()], tmp_path / "file")
    assert main(["reproduce", "star-against-hypercube", "--out", str(tmp_path / "file")]) == 2
    (tmp_path / document.PAGE).mkdir()
    with pytest.raises(ScenarioError, match="out"):
        write([sample()], tmp_path)


def test_a_page_lists_tables_with_permalinks_and_filters(tmp_path: Path) -> None:
    tables = [
        Table("Table 1", [{"n": 3, **compared(12, 13)}]),
        Table("Table 1", [{"n": 3, **compared(1, 1, paper="2 †")}, {"n": 4, **compared(1, 1)}], ["† it is 1"]),
        Table("Table 2", [{"n": 3, **unmeasured(3)}], ["† of the text"]),
    ]
    page, *_ = write([sample(*tables), replace_name(sample(Figure("Figure 1", "<svg></svg>")), "other")], tmp_path)
    text = page.read_text()
    assert "<details open" not in text
    found = re.findall(r'<details id="([^"]*)" data-kinds="([^"]*)">', text)
    assert found == [
        ("sample--table-1", "violated"),
        ("sample--table-1-2", "errata"),
        ("sample--table-2", "errata not-measured"),
        ("other--figure-1", "figure"),
    ]
    assert all(f'href="#{name}"' in text for name, _ in found)
    buttons = re.findall(r'data-filter="([a-z-]+)".*?class="count">(\d+)<', text)
    assert buttons == [("errata", "2"), ("not-measured", "1"), ("violated", "1")]
    assert re.findall(r'<tr data-kinds="([^"]*)">', text) == ["violated", "errata", "", "not-measured"]


def replace_name(done: Reproduced, name: str) -> Reproduced:
    return replace(done, reproduction=replace(done.reproduction, name=name))


# --- estimates of runs and time --------------------------------------------------------------------------------------


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_the_list_names_the_number_of_runs_of_every_reproduction(name: str) -> None:
    about, cost = find_reproduction(name), cost_of(name)
    counted = count_runs([(about, about.over(None))])
    assert counted is not None
    assert cost is not None
    assert (cost.runs, cost.seconds > 0) == (len(counted), True), "run scripts/reproduction-costs"


def test_an_estimate_in_words() -> None:
    assert str(RunEstimate(1234, 200)) == "1,234 runs, about 3 min 20 s"
    assert str(RunEstimate(1234, 200, kept=1000)) == "1,234 runs, 1,000 of them kept from before, about 3 min 20 s"
    assert cost_of("nothing") is None


@pytest.mark.parametrize(("seconds", "words"), [(0.1, "1 s"), (59, "59 s"), (60, "1 min"), (204, "3 min 20 s")])
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_page_lists_what_is_not_reproduced(tmp_path: Path, run_cache: RunCache) -> None:
    about = find_reproduction("hussain-figures")
    page, *files = write([Reproduced(about, [*about.sections(run_cache)])], tmp_path)
    assert "Not reproduced" in page.read_text()
    with files[-1].open() as file:
        assert [row["verdict"] for row in csv.DictReader(file)] == ["not measured"] * len(about.left_out)


def test_every_reproduction_has_its_registered_name() -> None:
    assert all(name == about.name and about.paper and about.description for name, about in REPRODUCTIONS.items())


def test_the_documentation_names_every_reproduction() -> None:
    pages = (Path(__file__).parent.parent.parent.parent / "docs").rglob("*.md")
    text = "\n".join(page.read_text() for page in pages)
    assert all(f"`{name}`" in text for name in REPRODUCTIONS)


# --- the star graph and the hypercube --------------------------------------------------------------------------------


BOUNDS = [row for row in golden("star", "hypercube_bounds") if row["problem"] in NAMES]


@pytest.mark.parametrize("row", BOUNDS, ids=lambda row: f"C_{row['k']}-{row['problem']}")
def test_bounds_of_table_5(row: dict[str, str]) -> None:
    problem, network = PROBLEMS[NAMES[row["problem"]]], Hypercube(int(row["k"]))
    transmissions, one_port, all_port = (lower_bound(problem, network, quantity) for quantity in QUANTITIES)
    expected = [int(row[column]) for column in ("transmissions", "time_SLA", "time_MLA")]
    assert [transmissions, one_port, ceil(all_port)] == expected


@pytest.mark.parametrize("n", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_star_and_hypercube_meet_their_bounds(n: int, run_cache: RunCache) -> None:
    about = find_reproduction("star-against-hypercube")
    for table in about.build(replace(run_cache, sizes=about.over(n))):
        assert isinstance(table, Table)
        # two more algorithms for the total exchange of whole messages on C_k
        assert len(table.rows) == 12 + 2 + n - 1
        assert verdict_of(table.verdicts) is Verdict.HOLDS, table
        for row in table.rows:
            for network in (f"S_{n}", f"C_{ {3: 3, 4: 5}[n] }"):
                if row[f"{network} measured"] is not None:
                    assert row[f"{network} measured"] >= row[f"{network} bound"], row  # type: ignore[operator]


@pytest.mark.parametrize(
    "row", [row for row in BOUNDS if int(row["k"]) <= 5], ids=lambda row: f"C_{row['k']}-{row['problem']}"
)
def test_whole_messages_on_the_hypercube_take_times_of_table_5(row: dict[str, str], run_cache: RunCache) -> None:
    """In prime dimensions SBnT meets the first two bounds; a list schedule meets 2^(k-1) in all."""
    k, name = int(row["k"]), NAMES[row["problem"]]
    found = {quantity: bound_row(run_cache, Hypercube(k), PROBLEMS[name], quantity) for quantity in QUANTITIES}
    assert found["transmissions"]["measured"] == int(row["transmissions"])
    assert found["one-port time"]["measured"] == int(row["time_SLA"])
    measured, bound = found["all-port time"]["measured"], int(row["time_MLA"])
    assert isinstance(measured, int)
    assert measured >= bound
    if k != 4 or name == "total exchange":
        assert measured == bound
        assert {entry["verdict"] for entry in found.values()} == {"holds"}


@pytest.mark.parametrize(("n", "k"), [(3, 3), (4, 5)])
def test_total_exchange_on_the_hypercube_shows_both_rows(n: int, k: int, run_cache: RunCache) -> None:
    """Table 5 prints 2^(k-1), and only a row with that prediction may carry the print."""
    network = networks(n)[1]
    rows = [row for row in rows_of_network(run_cache, network) if row["problem"] == "total exchange"]
    found = {row["algorithm"]: row for row in rows if row["quantity"] == "all-port time"}
    columns = ("paper", "predicted", "measured", "verdict")
    assert {name: tuple(row[column] for column in columns) for name, row in found.items()} == {
        "list schedule": (None, 2 ** (k - 1), 2 ** (k - 1), "holds"),
        "of [11], not built": (2 ** (k - 1), 2 ** (k - 1), None, "evaluated"),
        "SBnT, by necklaces": (None, 2 ** (k - 1) + k - 1, 2 ** (k - 1) + k - 1, "holds"),
    }


@pytest.mark.parametrize("name", ["fragopoulou-akl-1993", "star-against-hypercube"])
def test_no_row_holds_with_another_value_than_the_print(name: str, run_cache: RunCache) -> None:
    """Where the print is a whole number, the row that holds predicts it; errata are marked and no numbers."""
    about = find_reproduction(name)
    sections = [*about.build(replace(run_cache, sizes=about.over(3)))]
    rows = [
        row for table in sections if isinstance(table, Table) for row in table.rows if row.get("verdict") == "holds"
    ]
    printed = [row for row in rows if isinstance(row.get("paper"), int)]
    assert all(str(row["paper"]) == str(row["predicted"]).removeprefix("<= ").removeprefix(">= ") for row in printed)


def test_parts_of_messages_have_their_own_bound(run_cache: RunCache) -> None:
    for short, bound in (("MNB", 2.333), ("SNS", 2.333), ("TE", 4)):
        row = bound_row(run_cache, Hypercube(3), PROBLEMS[NAMES[short]], IN_PARTS)
        assert row["measured"] == row["lower bound"] == bound
        assert row["paper"] is None


@pytest.mark.parametrize("k", range(2, 9))
def test_distances_of_necklaces_of_the_hypercube(k: int) -> None:
    """Counted by orbits, node by node."""
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

"""The first row where two histories part, and the hops and faults that a state depends on."""

from pathlib import Path

import polars as pl
import pytest

from coordinator.api.comparisons import compare
from coordinator.execution.verify import verify
from coordinator.results.explain import explain
from emunode.model import ALL_RANKS
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case

CRASHED = Case("star:3 broadcast greedy-tree", "crash:213@2")
PLAIN = Case("star:3 broadcast greedy-tree")


def explained(case: Case, label: str, step: int) -> list[str]:
    return explain(case.plan, case.journal, case.plan.topology.rank(label), step)


def test_a_state_depends_on_the_path_of_its_segments() -> None:
    lines = explained(Case("star:4 broadcast greedy-tree"), "4321", 9)
    distance = Case("star:4 broadcast greedy-tree").plan.topology
    far = distance.distance(distance.rank("4321"), 0)
    assert lines[0] == f"4321 at the beginning of step 9 depends on {far} hops"
    assert lines[1].startswith("  step 1, 1234 to ")
    assert " to 4321: segment 0 of 1234 on tree 0, 64 bytes, first" in lines[-1]
    assert explained(PLAIN, "213", 1) == ["213 at the beginning of step 1 depends on 0 hops"]


@pytest.mark.parametrize(
    "line", ["hypercube:3 reduce sbt", "hypercube:3 broadcast edge-disjoint-trees", "star:3 alltoall edt"]
)
def test_every_hop_of_an_explanation_leads_to_the_state(line: str) -> None:
    """From the last hop to the first, each one ends where a later one, or the node itself, began."""
    case = Case(line)
    rank, step = 0, 4
    lines = explained(case, case.plan.topology.label(rank), step)
    reached = {rank}
    for hop in reversed(lines[1:]):
        receiver = hop.partition(" to ")[2].partition(":")[0]
        assert case.plan.topology.rank(receiver) in reached
        reached.add(case.plan.topology.rank(hop.partition(", ")[2].partition(" to ")[0]))
    assert len(set(lines)) == len(lines)


def test_a_reduction_depends_on_every_contribution() -> None:
    case = Case("hypercube:3 reduce sbt")
    assert explained(case, "000", 99)[0].endswith("depends on 7 hops")
    rows = case.journal.filter(pl.col("target") != ALL_RANKS)
    assert len(rows) == 7


def test_lost_hops_name_the_faults() -> None:
    down = Case("star:3 broadcast greedy-tree", "down:123~213@1")
    lines = explained(down, "213", 3)
    assert lines[:2] == ["213 at the beginning of step 3 depends on 0 hops", "1 hop to these nodes was lost:"]
    assert lines[2].endswith("lost: down:123~213@1")
    healed = Case("hypercube:3 broadcast sbt messages=3", "crash:001@1", "recover:001@2", "down:001~000@2")
    lost = [line.partition("lost: ")[2] for line in explained(healed, "001", 5)[2:]]
    assert lost == ["crash:001@1", "down:001~000@2", "down:001~000@2"]


def test_compare_names_the_first_row_in_which_journals_part(tmp_path: Path) -> None:
    plain, crashed = (case.stored(tmp_path / name).path for name, case in (("a", PLAIN), ("b", CRASHED)))
    found = compare(plain, crashed).record["parting"]
    assert found["step"] == 2
    assert found["rows"][0].startswith("step 2, ")
    assert any(text.startswith("213 had segment 0 of 123 on tree 0 (step 1, from 123)") for text in found["known"])
    assert "parting" not in compare(plain, plain).record


def test_verify_names_the_first_hop_that_differs(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = PLAIN.stored(tmp_path / "run").path
    assert (
        "213 at the beginning of step 2 depends on 1 hop\n  step 1, 123 to 213:"
        in call("verify run --explain 213@2").out
    )
    assert call("verify run --explain 213@2 --json").data[0]["explained"][0].endswith("depends on 1 hop")
    CRASHED.stored(tmp_path / "crashed")
    assert call("verify crashed --explain 312@4").out.endswith(
        "312 misses messages to the end, because of crash:213@2\n"
    )
    for place, reason in (
        ("213", "expected NODE@STEP"),
        ("999@1", "there is no node '999'"),
        ("213@0", "expected NODE"),
    ):
        ended = call(f"verify run --explain {place}")
        assert (ended.status, reason in ended.err) == (2, True)
    pl.read_parquet(path / "journal.parquet").head(4).write_parquet(path / "journal.parquet")
    (line,) = [line for line in verify(path).findings if "hops differ" in line]
    assert "1 hops differ from what the algorithm does; the first, only in the replay: step 3, " in line

"""Repair of a broadcast: what it delivers and claims, under both clocks."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from coordinator.execution.sinks import MemoryRun
from coordinator.results.claims import Verdict
from coordinator.results.metrics import count_trial
from emunode.model import CONTROL_TREE
from tests.helpers.command_line import ROOT, Call, fields
from tests.helpers.feature_support import REPAIR, TIMED, Values
from tests.helpers.mutation_support import history_of
from tests.helpers.scenarios import Case
from tests.helpers.support import run_and_draw

STAR: Values = fields("star:4 broadcast edt message_bytes=60")
DENSE: Values = fields("ej:3+4 broadcast improved fault_knowledge=all")


def claims_of(result: MemoryRun) -> dict[tuple[str, str], Any]:
    return {(each.claim.name, each.claim.relation): each.claim.predicted for each in result.judgements}


# --- until the faults are over -----------------------------------------------------------------------------------------

LOSSES = ("loss:*:0.6", "crash:110@2", "hang:010@3", "down:000~001@2")


@pytest.mark.parametrize(
    "settings",
    [{}, {"messages": 3}, {"messages": 2, "port_model": "one-port"}, TIMED, {"fault_knowledge": "detect:3"},
     {"fault_knowledge": "neighbours"}, {"reliable": True, "attempts": 2}, {"algorithm": "nesbt", "repair": "switch-tree"}],
)  # fmt: skip
def test_everybody_is_served_once_all_faults_have_ended(settings: Values) -> None:
    """Nodes that have crashed recover without what they had, and ask for it."""
    for seed in range(8):
        case = Case(REPAIR, *LOSSES, **{"heal_at": 14, "seed": seed, **settings})
        summary = case.summary
        assert summary["verdict"] == "holds", case
        assert summary["deliveries"] == summary["expected_deliveries"], case
        assert summary["cut_off"] == []
        assert ("intact_deliveries", ">=") in claims_of(case.run)


def test_a_run_without_that_moment_ends_after_one_round() -> None:
    """Two of seven nodes are not served, and nothing is claimed about them."""
    case = Case(REPAIR, "loss:*:0.3@1-7", seed=1)
    assert case.summary["deliveries"] < 7
    assert case.summary["verdict"] == "undecided"
    healed = case.but(heal_at=8)
    assert (healed.summary["deliveries"], healed.summary["verdict"]) == (7, "holds")
    assert healed.summary["waiting_nodes"] == 0


def test_times_end_rounds_under_the_timed_clock() -> None:
    """A packet takes 1 ms: what is lost until 9.5 ms is asked for again after that."""
    case = Case(REPAIR | TIMED, "loss:*:0.9@0ms", heal_at="9.5ms", seed=3)
    assert (case.summary["deliveries"], case.summary["verdict"]) == (7, "holds")


# --- what is measured --------------------------------------------------------------------------------------------------


def test_nodes_without_a_healthy_neighbour_stay_cut_off() -> None:
    result = Case(REPAIR, fault=["crash:001@1", "crash:010@1", "crash:111@1"]).run
    assert [each["label"] for each in result.summary["cut_off"]] == ["011"]  # type: ignore[attr-defined]
    assert claims_of(result)["intact_deliveries", "=="] == 3
    assert result.verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("line", "delivered", "relation"),
    [
        ("hypercube:3 broadcast sbt repair=next-port messages=3 fault=crash:001@2", 18, ">="),
        ("hypercube:3 broadcast sbt repair=next-port fault=down:000~001@1", 7, "=="),
        ("hypercube:3 broadcast sbt repair=next-port fault=down:000>001@1", 7, "=="),
        ("hypercube:3 broadcast sbt repair=next-port fault=loss:000~001:0.5 fault=loss:001~011:1", 7, ">="),
        ("hypercube:3 broadcast sbt repair=next-port messages=2 fault=hang:001@2-9", 12, ">="),
        ("hypercube:3 broadcast sbt repair=next-port messages=3 fault_knowledge=detect:1 fault=crash:001@2", 18, ">="),
        ("hypercube:3 broadcast sbt repair=next-port port_model=one-port messages=2 fault=crash:001@1", 12, "=="),
        ("hypercube:3 broadcast sbt repair=next-port fault=silent:001", 6, "=="),
        ("hypercube:3 broadcast sbt repair=next-port reliable=true messages=2 fault=crash:001@1", 12, "=="),
        ("star:4 broadcast edt message_bytes=60 repair=switch-tree fault=crash:2134@1 fault=crash:3214@1", 21, "=="),
        ("star:4 broadcast edt message_bytes=60 repair=switch-tree messages=2 fault=crash:2134@3", 44, ">="),
        (
            "ej:3+4 broadcast improved fault_knowledge=all repair=spanning-tree fault=down:0,0~1,0@1 fault=crash:0,1@1",
            35,
            "==",
        ),
        ("ej:3+4 broadcast improved fault_knowledge=all repair=edges messages=3 fault=crash:0,1@1", 105, "=="),
        ("ej:3+4 broadcast improved fault_knowledge=all repair=re-root fault=crash:0,1@1 fault=crash:1,0@1", 34, "=="),
    ],
)
def test_what_is_connected_is_delivered(line: str, delivered: int, relation: str) -> None:
    result = Case(line).run
    assert result.verdict is Verdict.HOLDS, [each.record() for each in result.judgements]
    assert result.summary["intact_deliveries"] == delivered
    claimed = claims_of(result)["intact_deliveries", relation]
    assert claimed == delivered if relation == "==" else claimed <= delivered


def test_altered_bytes_are_not_repaired() -> None:
    result = Case(REPAIR, fault=["corrupt:000~001:1"]).run
    assert ("intact_deliveries", "==") not in claims_of(result)
    assert result.verdict is Verdict.UNDECIDED


def test_planned_repairs_claim_their_bounds() -> None:
    two = {"fault": ["crash:1,0@1", "crash:0,1@1"]}
    edges, other = Case(DENSE | two, repair="edges").run, Case(DENSE | two, repair="re-root").run
    assert claims_of(edges)["repair_links", "=="] == edges.summary["repair_links"] == 4
    assert claims_of(edges)["steps", "<="] == 3 + 2
    assert claims_of(other)["steps", "<="] == 2 * 3
    assert "repair_links" not in other.summary
    assert {edges.summary["extra_segments"], other.summary["extra_segments"]} == {-2}
    gaussian = Case(DENSE | two | {"topology": "gaussian:3+4", "algorithm": "bfs-tree"}, repair="edges").run
    assert claims_of(gaussian)["steps", "<="] == 3 + 2
    assert gaussian.verdict is Verdict.HOLDS


def test_what_has_no_repair_runs_as_it_is() -> None:
    """Three faults that no node has at its largest distance."""
    result = Case(
        DENSE | {"topology": "gaussian:3+4", "algorithm": "bfs-tree"},
        repair="re-root",
        fault=["crash:1,0@1", "crash:3,0@1", "crash:-1,0@1"],
    ).run
    assert result.verdict is Verdict.HOLDS
    assert claims_of(result)["intact_deliveries", "=="] == result.summary["intact_deliveries"]


# --- the timed clock -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "hypercube:3 broadcast sbt repair=next-port",
        "hypercube:3 broadcast sbt repair=next-port messages=3 message_bytes=100 segments=3 per_byte=10us",
        "hypercube:3 broadcast sbt repair=next-port port_model=one-port messages=2 fault=crash:001@1",
        "hypercube:3 broadcast sbt repair=next-port fault_knowledge=neighbours fault=crash:001@1 fault=crash:111@1",
        "hypercube:3 broadcast sbt repair=next-port repair_after=3 fault=loss:000~001:0.5 fault=loss:001~011:1",
        "star:4 broadcast edt message_bytes=60 repair=switch-tree fault=crash:2134@1 fault=crash:3214@1",
        (
            "ej:3+4 broadcast improved fault_knowledge=all repair=spanning-tree per_byte=10us fault=down:0,0~1,0@1 "
            "fault=crash:0,1@1"
        ),
        "ej:3+4 broadcast improved fault_knowledge=all repair=edges messages=3 fault=crash:1,0@1 fault=crash:0,1@1",
        "ej:3+4 broadcast improved fault_knowledge=all repair=re-root fault=crash:1,0@1 fault=crash:0,1@1",
    ],
)
def test_packets_of_one_duration_are_repaired_as_in_lock_step(line: str) -> None:
    timed, stepped = Case(TIMED | fields(line)).run, Case(line).run
    assert timed.verdict is Verdict.HOLDS
    assert timed.summary["journal_hash"] == stepped.summary["journal_hash"]
    if "per_byte" not in line:
        assert timed.summary["recovery_seconds"] == stepped.summary["recovery_steps"] / 1000  # type: ignore[operator]


@pytest.mark.parametrize("more", [{}, {"port_model": "one-port"}, {"segments": 3, "message_bytes": 100, "messages": 2}])
def test_repair_changes_no_timed_run_without_faults(more: Values) -> None:
    values = TIMED | REPAIR | {"per_byte": "10us"} | more
    repaired, plain = Case(values).run, Case(values | {"repair": None}).run
    assert repaired.summary["journal_hash"] == plain.summary["journal_hash"]
    assert claims_of(repaired)["repair_requests", "=="] == repaired.summary["recovery_seconds"] == 0


@pytest.mark.parametrize(
    "line",
    [
        "hypercube:3 broadcast sbt repair=next-port messages=3 fault=crash:001@2ms fault=recover:001@9ms",
        "hypercube:3 broadcast sbt repair=next-port messages=2 fault=hang:001@0.5ms-9ms fault=slow:010:3",
        "hypercube:3 broadcast sbt repair=next-port fault=drift:111:0.5 fault=jitter:*:0.5 fault=delay:000~010:2",
        "hypercube:3 broadcast sbt repair=next-port reliable=true messages=2 fault=down:000~001@0.3ms",
        (
            "hypercube:3 broadcast sbt repair=next-port fault_knowledge=detect:2 keep_alive=6ms messages=2 "
            "fault=crash:001@0.5ms"
        ),
        "hypercube:3 broadcast sbt repair=next-port fault_knowledge=detect:4 keep_alive=2.5ms repair_after=1 messages=2",
        "ej:2+3 broadcast improved repair=spanning-tree fault_knowledge=all fault=crash:1,0@0.5ms",
    ],
)
def test_faults_at_times_are_repaired(line: str) -> None:
    result = Case(line, **TIMED | {"per_byte": "10us"}).run
    assert result.verdict is Verdict.HOLDS, [each.record() for each in result.judgements]


def test_requests_to_suspected_neighbours_have_no_time() -> None:
    """A late sign of life over one port: the request is withheld, and the audit judges the others."""
    values = {
        "topology": "ej:1+3",
        "algorithm": "improved",
        "port_model": "one-port",
        "messages": 2,
        "per_byte": "16us",
    }
    result = Case(TIMED | REPAIR | values, fault_knowledge="detect:1", keep_alive="9ms").run
    withheld = result.journal.filter(pl.col("outcome") == "withheld", pl.col("tree") == CONTROL_TREE + 2)
    assert withheld.collect().height > 0
    assert result.summary["illegal_hops"] == 0


# --- drivers, campaigns, commands ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "--topology hypercube:3 --algorithm sbt --repair next-port --faults nodes=1..2",
        "--topology ej:2+3 --algorithm improved --repair edges --fault-knowledge all --faults nodes=1..2",
    ],
)
def test_a_campaign_with_repair_runs_messages(line: str, call: Call) -> None:
    ended = call(f"campaign {line} --collective broadcast --trials 12 --out c --json")
    assert ended.status == 0, ended.err
    assert [row["engine"] for row in ended.data["rows"]] == ["messages", "messages"]
    assert [row["guaranteed"] for row in ended.data["rows"]] == [1.0, 1.0], "Q_3 and EJ_{2+3rho} stay connected"
    assert sum(row["violated"] + row["undecided"] for row in ended.data["rows"]) == 0
    refused = call(f"campaign {line} --collective broadcast --trials 12 --out d --engine exact")
    assert refused.status == 2


def test_a_report_marks_requests_and_repairs(call: Call, tmp_path: Path) -> None:
    run_and_draw(tmp_path / "run", **REPAIR, fault=["crash:001@1"])
    assert call("export run --trace t.json").status == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    kinds = pl.Series([event["cat"] for event in events if event["ph"] == "X"]).value_counts()
    assert dict(kinds.iter_rows()) == {"packet": 4, "lost": 1, "request": 4, "repair": 4}
    panel = re.search(
        '<section id="space-time">.*?</section>', (tmp_path / "run" / "report.html").read_text(), re.DOTALL
    )
    assert panel is not None
    assert re.findall('class="key"><svg.*?</svg>(.*?)</span>', panel[0]) == ["packet", "request", "repair", "lost"]


# --- the guide ---------------------------------------------------------------------------------------------------------


GUIDE: dict[str, Values] = {
    "`greedy-tree`, `next-port`": {"algorithm": "greedy-tree", "repair": "next-port"},
    "`greedy-tree`, `spanning-tree`": {"algorithm": "greedy-tree", "repair": "spanning-tree", "fault_knowledge": "all"},
    "`edt`, `switch-tree`": {"algorithm": "edt", "repair": "switch-tree"},
    "`edt`, two copies": {"algorithm": "edt", "redundancy": 2},
    "`edt`, three copies": {"algorithm": "edt", "redundancy": 3},
}


@pytest.mark.parametrize("faults", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GUIDE)
def test_the_guide_compares_repair_with_redundancy(name: str, faults: int) -> None:
    """The table of docs/how-to/repair.md, over all sets of one and of two crashed nodes."""
    page = (ROOT / "docs" / "how-to" / "repair.md").read_text()
    cells = next(line for line in page.splitlines() if line.startswith(f"| {name} |")).strip("| ").split(" | ")
    values = {"topology": "star:4", "collective": "broadcast", **GUIDE[name]}
    counts = []
    labels = [Case(values).plan.topology.label(rank) for rank in range(1, 24)]
    for crashed in combinations(labels, faults):
        plan = Case(values, fault=[f"crash:{label}@1" for label in crashed]).plan
        counts.append(count_trial(plan, history_of(plan)))
    served = sum(not each.unserved for each in counts) / len(counts)
    # Sets in which no node is served have no last delivery.
    lasts = [len(each.latencies) - 1 for each in counts if each.latencies]
    last = sum(lasts) / len(lasts)
    total: Any = sum(each.metrics["segments"] for each in counts)
    segments = total / len(counts)
    share = "all" if served == 1 else f"{100 * served:.0f} %"
    assert cells[3 * faults - 1 : 3 * faults + 2] == [share, f"{last:.2f}", f"{segments:.1f}"]
    assert cells[1] == str(count_trial(Case(values).plan, history_of(Case(values).plan)).metrics["segments"])

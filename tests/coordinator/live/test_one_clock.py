"""A watched run step by step: after k clicks a page has step k, as the journal has it in the end."""

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

from coordinator.live.opening import watched_plan
from coordinator.planning.plan import make_plan
from coordinator.reports.scene.nodes import GIVING
from coordinator.results.deliveries import silent_sources
from emunode.errors import ScenarioError
from emunode.model import AGAIN_TREE
from tests.helpers.scenarios import Case
from tests.helpers.watch_support import run_quietly, watched

SCENARIOS = (
    "star:4 broadcast greedy-tree",
    "star:4 broadcast flood messages=3",
    "star:4 broadcast edt segments=5 fault=crash:4132@2",
    "ej:2+3 broadcast improved messages=3",
    "star:4 scatter edt redundancy=2 fault=loss:1234~2134:1",
    "star:3 allgather edt-dfs fault=crash:213@3",
    "hypercube:3 alltoall sbnt",
    "star:4 gather balanced-tree fault=crash:4231@2",
    "hypercube:3 reduce sbt messages=2 fault=down:000~001@1-2",
    "star:4 broadcast flood fault=hang:2134@2-3",
    "star:4 broadcast greedy-tree fault=hang:2134@1-2",
    "hypercube:3 broadcast sbt fault=crash:001@1 fault=recover:001@2",
    "star:4 broadcast greedy-tree messages=4 fault=crash:4231@2 fault=recover:4231@4",
    "hypercube:3 allgather brg port_model=exchange fault=loss:000~001:1@2",
    "hypercube:4 broadcast nesbt segments=8 port_model=one-port",
    "torus:4x4 broadcast edge-disjoint-trees redundancy=2 fault=duplicate:0,0~0,1:1 fault=delay:0,0~1,0:2",
    "star:4 broadcast greedy-tree fault_knowledge=neighbours fault=crash:2134@2",
    "star:4 broadcast edt segments=9 fault=crash:2134@2 fault_knowledge=detect:2",
    # Repair and agreement.
    "hypercube:3 broadcast sbt repair=next-port fault=crash:001@1",
    "hypercube:4 broadcast sbt repair=next-port fault=crash:0001@1 fault=down:0010~0110@2",
    "star:4 broadcast greedy-tree repair=next-port fault=crash:4231@2 fault=loss:1234~3214:1",
    "torus:3x3 broadcast bfs-tree repair=next-port fault=hang:0,1@2-4",
    "star:4 broadcast greedy-tree fault=crash:2134@2 fault_knowledge=detect:1 on_failure=shrink",
    # Reliable links.
    "hypercube:3 broadcast sbt reliable=true fault=loss:000~001:0.5 seed=3",
    "star:4 broadcast greedy-tree reliable=true fault=drop:1234~2134:1",
    "star:4 gather edt reliable=true fault=crash:2134@2",
    "hypercube:3 broadcast sbt reliable=true segments=3 fault=corrupt:000~001:1@1-2",
    "hypercube:3 reduce sbt reliable=true fault=delay:000~001:2",
    # Votes.
    "star:4 broadcast edt redundancy=3 fault=byzantine:2134",
    "star:4 broadcast edt redundancy=3 fault=byzantine:2134 fault=byzantine:3214",
    "star:4 broadcast edt redundancy=2 fault=byzantine:2134",
    "star:4 broadcast edt redundancy=3 fault=collude:2134 fault=collude:3214",
    "star:4 broadcast edt redundancy=3 fault=equivocate:2134",
    "star:4 broadcast edt redundancy=3 fault=byzantine:2134 fault=hang:4231@2-3",
    "star:4 gather edt redundancy=3 fault=byzantine:4231",
    "star:4 scatter edt redundancy=3 fault=corrupt:1234~2134:1",
    "hypercube:3 broadcast independent-trees redundancy=3 fault=byzantine:001",
    # In host processes.
    "star:4 broadcast greedy-tree driver=local ranks_per_host=6 fault=crash:4231@2",
    "star:3 broadcast edt redundancy=2 driver=local fault=byzantine:213 fault=hang:321@2-3",
    "hypercube:3 broadcast sbt reliable=true driver=local ranks_per_host=2 fault=loss:000~001:0.5",
)
DATA = pl.col("tree") < AGAIN_TREE
ARRIVED = pl.col("outcome").is_in(["first", "duplicate", "relay", "corrupt"])
BUSY = pl.col("outcome").is_in(["first", "duplicate", "relay", "corrupt", "lost", "control"])


def played(scenario: str, faults: Mapping[int, Mapping[str, object]] = {}) -> tuple[list[dict[str, Any]], Any]:
    """Click Step until the run is over, with `faults` after some steps; the frame that followed each click, and the run."""
    plan = Case(scenario).plan
    clicks: list[dict[str, Any]] = []
    with watched(plan) as (client, results):
        stream = client.events()
        # Until it is known how many steps there will be.
        while (event := next(stream))[0] != "status" or event[1]["steps"] is None:
            pass
        wanted = False
        while True:
            if not wanted:
                client.request(do="step")
                wanted = True
            name, data = next(stream)
            if name == "finished":
                break
            for frame in data if name == "frames" else ():
                if "step" in frame:
                    assert wanted, "a step without a click"
                    wanted = False
                    clicks.append(frame)
                    if fault := faults.get(len(clicks)):
                        status = client.request(do="fault", **fault)
                        assert status["next"] == len(clicks) + 1
                        while (event := next(stream))[0] != "status" or event[1]["steps"] is None:
                            pass
    return clicks, results[0]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_k_clicks_show_the_first_k_steps_of_the_journal(scenario: str) -> None:
    clicks, run = played(scenario)
    journal = run.journal.collect()
    assert [frame["step"] for frame in clicks] == list(range(1, int(journal["step"].max()) + 1))
    hung = {fault.rank: fault.end for fault in run.plan.faults if type(fault).__name__ == "Hang"}
    # What came in the last step of a hang is seen when the node runs again.
    seen = journal.with_columns(
        step=pl.when(ARRIVED & (pl.col("step") == pl.col("receiver").replace_strict(hung, default=0, return_dtype=pl.Int64)))
        .then(pl.col("step") + 1).otherwise("step")
    )  # fmt: skip
    for frame in clicks:
        now = seen.filter(step=frame["step"])
        busy = now.filter(BUSY).select("sender", "port").unique()
        assert frame["busy"] == len(busy)
        assert set(zip(frame["arcs"][::6], frame["arcs"][1::6], strict=True)) == set(busy.iter_rows())
        data = now.filter(DATA)
        assert frame["lost"] == len(data.filter(outcome="lost"))
        if run.plan.spec.collective not in GIVING:
            # In a collective of all nodes nothing is due from a faulty one.
            due = ~pl.col("origin").is_in(silent_sources(run.plan))
            first = data.filter(due, outcome="first").group_by("receiver").len().sort("receiver")
            assert list(zip(frame["gained"][::2], frame["gained"][1::2], strict=True)) == list(first.iter_rows())
        altered = data.filter(outcome="corrupt").group_by("receiver").len().sort("receiver")
        assert list(zip(frame["altered"][::2], frame["altered"][1::2], strict=True)) == list(altered.iter_rows())
    again = run_quietly(make_plan(run.plan.scenario.on_driver("memory")))
    assert run.summary["journal_hash"] == again.summary["journal_hash"]


def test_a_node_that_is_crashed_receives_nothing_afterwards() -> None:
    rank = Case("star:4 broadcast greedy-tree").plan.topology.rank("4231")
    clicks, run = played("star:4 broadcast greedy-tree", {1: {"kind": "crash", "rank": rank}})
    assert run.plan.scenario.fault == ("crash:4231@2",)
    assert [rank in frame["gained"][::2] for frame in clicks] == [True, False, False, False]
    assert run.summary["intact_deliveries"] == 18
    late, run = played("star:4 broadcast greedy-tree", {2: {"kind": "crash", "rank": 23}})
    assert not any(23 in frame["gained"][::2] for frame in late)


def test_the_timed_clock_is_not_watched() -> None:
    scenario = Case("star:4 broadcast greedy-tree clock=timed").plan.scenario
    with pytest.raises(ScenarioError, match="the timed clock does not stop between steps"):
        watched_plan(scenario)

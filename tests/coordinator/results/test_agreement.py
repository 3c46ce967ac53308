"""Runs whose nodes agree on failures and repeat the collective on what is left, and the judge of their journals."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.execution.run import run
from coordinator.execution.sinks import MemorySink
from coordinator.features.agreement import SEARCHED, longest_disjoint_path, news_steps
from coordinator.history.journal import sorted_records
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import Verdict, claims_of
from coordinator.results.conclude import rule
from coordinator.scenario.model import make_scenario
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.faults.kinds import Crash
from emunode.model import AGAIN_TREE, CONTROL_TREE, HopOutcome, Rank, Step
from emunode.play import play
from emunode.protocols.agreement import REOPENS, AgreementLayer, Decision, News
from emunode.protocols.base import ControlKind
from emunode.protocols.survivors import RunEnd
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.command_line import fields
from tests.mutation_support import verdict_on
from tests.scenarios import Case
from tests.support import played

Values = dict[str, Any]
CUBE: Values = fields("hypercube:3 broadcast sbt")
SHRINK: Values = {"fault_knowledge": "detect:1", "on_failure": "shrink"}
AGREE: Values = {"fault_knowledge": "detect:1", "on_failure": "agree"}


# --- every crash, by a judge of its own -------------------------------------------------------------------------------

NETWORKS = {
    "star:4": "greedy-tree",
    "hypercube:4": "sbt",
    "ej:1+2": "improved",
    "ej:2+3": "improved",
}
LAST = 9
"""The last step in which a node crashes: during the first run, the agreement, or the second run."""


@cache
def plan_of(network: str) -> Plan:
    values = {"topology": network, "collective": "broadcast", "algorithm": NETWORKS[network], "driver": "memory"}
    return make_plan(make_scenario(values | SHRINK | {"fault": []}), faults_may_come=True)


def check(network: str, crashes: dict[Rank, Step]) -> None:
    """Run a broadcast in which these nodes crash, and judge its journal by plain sets of links and nodes."""
    plan = plan_of(network)
    topology, source = plan.topology, plan.spec.source
    assert plan.spec.agreement is not None
    engine, last = MemoryEngine(plan.algorithm), max(crashes.values()) + 1
    faults = [Crash(at, rank) for rank, at in crashes.items()]
    rows = list(play(engine, faults, limit=200, over=lambda step, busy: not busy and step > last))
    assert not engine.busy
    # Steps after the last one that do anything are not part of the run, so a crash in them is none.
    records = sorted_records(rows)
    reports = records[records["outcome"] == HopOutcome.REPORT]
    survivors = [rank for rank in topology.ranks() if rank not in crashes]
    expected = expected_decisions(topology, crashes)
    for rank in survivors:
        mine = reports[reports["sender"] == rank]
        decided = {
            int(at): {
                frozenset((int(row["origin"]), int(row["target"])))
                for row in mine[(mine["step"] == at) & (mine["tree"] == CONTROL_TREE + ControlKind.SUSPICION)]
            }
            for at in np.unique(mine["step"])
        }
        assert decided == {seen + plan.spec.agreement.steps: links for seen, links in expected.items()}
        ends = mine[mine["tree"] == CONTROL_TREE + ControlKind.END]["segment"]
        assert [*ends] == [
            RunEnd.REPEATED if nx.has_path(without(topology, links), rank, source) else RunEnd.ROOT_FAILED
            for links in expected.values()
        ]
    if source not in crashes:
        first = AGAIN_TREE + 256 * (len(expected) - 1)
        served = records[(records["tree"] == first) & (records["outcome"] == HopOutcome.FIRST)]
        # Each survivor has the message once, from the second run alone.
        assert sorted(served["receiver"]) == [rank for rank in survivors if rank != source]


def without(topology: Topology, links: Iterable[Iterable[Rank]]) -> "nx.Graph[Rank]":
    """The network without some links."""
    graph = nx.Graph((one, peer) for one in topology.ranks() for _, peer in topology.adjacent(one))
    graph.remove_edges_from(tuple(link) for link in links)
    return graph


def expected_decisions(topology: Topology, crashes: dict[Rank, Step]) -> dict[Step, set[frozenset[Rank]]]:
    """By step of suspicion, one after a crash, all links that are suspected until then: those to live neighbours."""
    links: set[frozenset[Rank]] = set()
    found = {}
    for at in sorted(set(crashes.values())):
        for rank in (rank for rank, step in crashes.items() if step == at):
            alive = [peer for _, peer in topology.adjacent(rank) if crashes.get(peer, at + 2) > at + 1]
            links |= {frozenset((rank, peer)) for peer in alive}
        found[at + 1] = set(links)
    return found


@pytest.mark.exhaustive(one_in=60)
@pytest.mark.parametrize(
    ("network", "rank"),
    [(network, rank) for network in NETWORKS for rank in parse_topology(network).ranks()],
)
def test_after_any_crash_survivors_agree_and_are_served(network: str, rank: Rank) -> None:
    for at in range(1, LAST + 1):
        check(network, {rank: at})


@pytest.mark.exhaustive(one_in=280)
@pytest.mark.parametrize("pair", list(combinations(range(24), 2)))
def test_after_any_two_crashes_survivors_agree_and_are_served(pair: tuple[Rank, Rank]) -> None:
    one, other = pair
    for at in range(1, LAST + 1):
        # Together, one after the other while nodes agree, when they decide, and during the second run.
        for later in (0, 1, 3, 6, 8):
            check("star:4", {one: at, other: at + later})
            check("star:4", {other: at, one: at + later})


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_collective_runs_again_on_what_a_crash_leaves() -> None:
    result = Case(CUBE | SHRINK, fault=["crash:001@2"]).run
    summary: dict[str, Any] = result.summary
    assert result.verdict is Verdict.HOLDS
    assert (summary["decisions"], summary["agreement_errors"], summary["revised_decisions"]) == (1, 0, 0)
    # D_2 of Q_3 is 4: suspected in step 3, decided in step 7.
    assert summary["slowest_agreement_steps"] == 4
    assert (summary["repetitions"], summary["repetition_order"]) == (1, 7)
    # Along shortest paths around 001 to six nodes.
    assert (summary["repetition_steps"], summary["repetition_packets"]) == (3, 6)
    assert summary["final_delivery_ratio"] == 1
    assert summary["agreement"] == [
        {
            "nodes": 7,
            "step": 7,
            "suspected_since": [3],
            "links": ["000~001", "001~011", "001~101"],
            "lost_nodes": ["001"],
            "ends": {"repeated": {"nodes": 7}},
        }
    ]
    rows = result.journal.collect()
    news = rows.filter(pl.col("tree") == CONTROL_TREE + ControlKind.SUSPICION, pl.col("outcome") != "report")
    assert summary["agreement_packets"] == news.select("step", "sender", "port").n_unique()
    # Its three neighbours tell 001 that it is given up, in case that it lives.
    assert summary["lost_agreement_packets"] == 3


def test_nodes_that_only_agree_go_on_with_the_collective() -> None:
    values = CUBE | {"messages": 12, "fault": ["crash:001@3"]}
    plain, agreed = Case(values, fault_knowledge="detect:1").summary, Case(values | AGREE).summary
    for name in ("steps", "packets", "intact_deliveries", "withheld_packets", "lost"):
        assert plain[name] == agreed[name], name
    assert agreed["decisions"] == 1
    assert "final_delivery_ratio" not in agreed
    assert agreed["verdict"] == "holds"


@pytest.mark.parametrize("algorithm", ["sbt", "nesbt", "flood", "bfs-tree"])
def test_it_costs_nothing_if_nothing_fails(algorithm: str) -> None:
    plain = Case(CUBE, algorithm=algorithm, messages=3).run
    for more in (AGREE, SHRINK):
        result = Case(CUBE | more, algorithm=algorithm, messages=3).run
        assert result.summary["journal_hash"] == plain.summary["journal_hash"]
        assert result.summary["agreement_packets"] == 0
        assert result.verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [
        ("scatter", "balanced-tree"),
        ("gather", "edt"),
        ("reduce", "greedy-tree"),
        ("allgather", "mbst"),
        ("reduce-scatter", "bfb"),
        ("allreduce", "bfs-tree"),
        ("alltoall", "edt"),
        ("unicast", "minimal"),
    ],
)
def test_every_collective_runs_again(collective: str, algorithm: str) -> None:
    values = {"topology": "star:4", "collective": collective, "algorithm": algorithm, "driver": "memory"} | SHRINK
    result = Case(values, fault=["crash:2134@2", "down:1234~3214@3"], message_bytes=96).run
    assert result.verdict is Verdict.HOLDS, [each.record() for each in result.judgements]
    assert result.summary["final_delivery_ratio"] == 1
    assert result.summary["repetition_order"] == 23


def test_without_its_source_every_survivor_ends_with_an_error() -> None:
    summary = Case(CUBE | SHRINK, fault=["crash:000@2"]).summary
    assert summary["verdict"] == "undecided"
    assert summary["undecided_because"] == (
        "the source 000 is crashed: 7 nodes agreed on that, and ended with the error root-failed"
    )
    (decision,) = summary["agreement"]
    assert decision["ends"] == {
        "root-failed": {"nodes": 7, "labels": ["001", "010", "011", "100", "101", "110", "111"]}
    }
    # The agreement itself is judged all the same.
    judged = {claim["name"]: claim["verdict"] for claim in summary["claims"]}
    assert judged["agreement_errors"] == judged["slowest_agreement_steps"] == "holds"


def test_a_source_failing_after_the_end_has_nothing_to_repeat() -> None:
    result = Case(CUBE | SHRINK, fault=["crash:000@4"]).run
    assert result.summary["undecided_because"] == "7 nodes ended with the error root-failed"
    assert "final_delivery_ratio" not in {each.claim.name for each in result.judgements}
    assert {each.verdict for each in result.judgements} == {Verdict.HOLDS}


@pytest.mark.parametrize("place", ["000>010:1@3", "000>010:2@1", "010>011:1@2", "010>011:2@2"])
def test_a_dropped_packet_is_counted_among_packets_of_news(place: str) -> None:
    for how in (AGREE, SHRINK):
        assert Case(CUBE | how, fault=["crash:001@2", f"drop:{place}"]).summary["illegal_hops"] == 0


def test_disagreement_is_no_success_without_a_claim() -> None:
    plan = Case(CUBE | AGREE, fault=["hang:001@2-3"]).plan
    result = run(plan, MemorySink())
    metrics = result.conclusion.metrics
    assert rule(plan, claims_of(plan).kept, metrics, None).verdict is Verdict.HOLDS
    ruling = rule(plan, claims_of(plan).kept, {**metrics, "agreement_errors": 2}, None)
    assert ruling.verdict is Verdict.UNDECIDED
    assert ruling.undecided == "2 errors of agreement, about which nothing is claimed under these faults"


def test_a_node_that_crashes_on_suspicion_tells_no_other_node() -> None:
    faults = ["crash:011@4", "recover:011@8", "crash:010@5", "recover:010@8"]
    assert Case(CUBE | AGREE, algorithm="bfs-tree", fault=faults).summary["agreement_errors"] == 0


def test_a_last_node_that_fails_early_need_not_decide() -> None:
    values = CUBE | AGREE | {"topology": "hypercube:2", "agreement_steps": 9, "fault_knowledge": "detect:3"}
    faults = ["crash:11@2", "crash:10@3", "crash:00@6", "crash:01@8"]
    assert Case(values, fault=faults).summary["agreement_errors"] == 0


def test_a_run_over_links_that_lose_packets_to_the_end_ends() -> None:
    result = Case(CUBE | AGREE, fault=["loss:*:0.5"], step_limit=200).run
    assert "limit" not in str(result.summary["undecided_because"])


def test_the_largest_part_of_a_network_that_is_cut_goes_on() -> None:
    result = Case(CUBE | SHRINK, fault=["crash:110@2", "crash:101@2", "crash:011@2"]).run
    summary: dict[str, Any] = result.summary
    assert result.verdict is Verdict.HOLDS
    assert [(each["nodes"], each["ends"]) for each in summary["agreement"]] == [
        (4, {"repeated": {"nodes": 4}}),
        (1, {"excluded": {"nodes": 1, "labels": ["111"]}}),
    ]
    (claim,) = (claim for claim in summary["claims"] if claim["name"] == "agreement_errors")
    assert claim["source"] == (
        "agreement by flooding: the same set in every component: these faults may have cut the network"
    )


def test_a_live_node_that_is_given_up_learns_it_and_ends() -> None:
    summary = Case(CUBE | SHRINK, fault=["hang:001@2-4"]).summary
    (decision,) = summary["agreement"]
    assert decision["ends"]["excluded"] == {"nodes": 1, "labels": ["001"]}
    assert decision["ends"]["repeated"] == {"nodes": 7}
    assert (summary["agreement_errors"], summary["final_delivery_ratio"]) == (0, 1)


def test_a_node_that_hangs_during_the_agreement_learns_it() -> None:
    summary = Case(CUBE | AGREE, topology="hypercube:2", fault=["hang:01@1-3"]).summary
    assert [each["nodes"] for each in summary["agreement"]] == [4]
    assert summary["agreement_errors"] == 0


def test_a_node_that_is_not_heard_learns_that_it_is_excluded() -> None:
    faults = [f"down:001>{peer}@2" for peer in ("000", "011", "101")]
    summary = Case(CUBE | SHRINK, fault=faults).summary
    excluded = [each["ends"]["excluded"]["labels"] for each in summary["agreement"] if "excluded" in each["ends"]]
    assert excluded == [["001"]]


def test_decisions_that_are_too_early_are_revised() -> None:
    """With a bound of one step nodes decide before all news are there, learn it, and decide again."""
    summary = Case(CUBE | SHRINK, fault=["crash:001@2"], agreement_steps=1).summary
    assert summary["revised_decisions"] > 0
    assert summary["agreement_errors"] == 0
    assert summary["final_delivery_ratio"] == 1
    # So the bound that was given is wrong.
    assert summary["verdict"] == "violated"


def test_over_sockets_with_a_process_for_every_node() -> None:
    values = CUBE | SHRINK | {"fault": ["crash:001@2", "crash:110@4"]}
    expected = Case(values).summary["journal_hash"]
    result = Case(values, driver="local", ranks_per_host=1).run
    assert result.summary["journal_hash"] == expected
    assert result.verdict is Verdict.HOLDS


@st.composite
def lasting_faults(draw: st.DrawFn) -> Values:
    network = draw(st.sampled_from(["hypercube:3", "ring:6", "mesh:3x3", "ej:1+2", "debruijn:2,3"]))
    topology = parse_topology(network)
    faults = {}
    for rank in draw(st.lists(st.sampled_from(topology.ranks()), max_size=4, unique=True)):
        kind, step = draw(st.sampled_from(["crash", "hang", "down"])), draw(st.integers(1, 12))
        port, peer = draw(st.sampled_from(list(topology.adjacent(rank))))
        ends = f"{topology.label(rank)}{draw(st.sampled_from('~>'))}{topology.label(peer)}"
        faults[rank] = f"{kind}:{ends if kind == 'down' else topology.label(rank)}@{step}"
        assert port in topology.ports(rank)
    return {
        "topology": network,
        "fault": list(faults.values()),
        "fault_knowledge": f"detect:{draw(st.integers(1, 3))}",
        "on_failure": draw(st.sampled_from(["agree", "shrink"])),
    }


@given(lasting_faults())
def test_no_run_is_judged_wrong(values: Values) -> None:
    """Whatever fails, and even if the network is cut: one decision in each component, and at most one part goes on."""
    result = Case({"collective": "broadcast", "algorithm": "bfs-tree", "driver": "memory"} | values).run
    assert result.verdict is not Verdict.VIOLATED, [each.record() for each in result.judgements]
    assert result.summary["agreement_errors"] == 0
    going_on = [each for each in result.conclusion.measurement.stated["agreement"] if "repeated" in each["ends"]]  # type: ignore[attr-defined]
    assert len(going_on) <= 1
    if going_on:
        assert_largest(result.plan, going_on[0])


def assert_largest(plan: Plan, decision: Any) -> None:
    """The part that goes on is the largest component of the network without the links given up."""
    topology = plan.topology
    graph = without(topology, [map(topology.rank, link.split("~")) for link in decision["links"]])
    parts = sorted(nx.connected_components(graph), key=lambda part: (-len(part), min(part)))
    assert {topology.label(rank) for part in parts[1:] for rank in part} == {*decision["lost_nodes"]}


# --- wrong implementations --------------------------------------------------------------------------------------------


def early(self: AgreementLayer, cut: Step) -> Step:
    """Every rank decides one step after a suspicion."""
    return due(self, cut) if any(news.port == REOPENS for news in self.known) else cut + 1


def forgetful(self: AgreementLayer, now: Step, news: News, source: int | None = None) -> None:
    """Rank 6 keeps what it hears to itself, and rank 5 takes no notice."""
    del now
    if self._rank != 5:
        self.known.add(news)
    if self._rank != 6:
        for port in self._ports:
            if news not in self.__dict__.setdefault("passed", set()) and port != source:
                self._leave(port, self.segment_of(news))
        self.__dict__["passed"].add(news)


def inventive(self: AgreementLayer, now: Step) -> None:
    """Rank 7 decides on a link that nobody suspects."""
    decide(self, now)
    if self._rank == 7 and len(self.decisions) == 1 and self.reports:
        self.reports.append(self.segment_of(News(self.decisions[0].cut, 2, 0)))


def repeating(self: AgreementLayer, now: Step) -> None:
    """Rank 4 decides twice."""
    decide(self, now)
    if self._rank == 4 and self.decisions and not self.__dict__.setdefault("again", False):
        self.__dict__["again"] = True
        self.decisions.clear()


def partial(self: AgreementLayer, now: Step) -> None:
    """Rank 3 leaves out a link."""
    before = len(self.decisions)
    decide(self, now)
    if self._rank == 3 and len(self.decisions) > before:
        least = min(self.decisions[-1].news)
        self.decisions[-1] = Decision(*self.decisions[-1][:2], self.decisions[-1].news - {least})
        self.reports.remove(self.segment_of(least))


def silent(self: AgreementLayer, now: Step) -> None:
    """Rank 2 forgets what it should decide."""
    decide(self, now)
    if self._rank == 2:
        self.reports.clear()


decide, due = AgreementLayer.wake, AgreementLayer._due


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("_due", early),
        ("_learn", forgetful),
        ("wake", inventive),
        ("wake", partial),
        ("wake", repeating),
        ("wake", silent),
    ],
)
def test_a_wrong_protocol_is_caught(name: str, mutant: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    for values in (AGREE, SHRINK):
        assert Case(CUBE | values, fault=["crash:001@2"]).run.verdict is Verdict.HOLDS
        with monkeypatch.context() as patch:
            patch.setattr(AgreementLayer, name, mutant)
            summary = Case(CUBE | values, fault=["crash:001@2"], step_limit=100).summary
        wrong = {claim["name"] for claim in summary["claims"] if claim["verdict"] == "violated"}
        assert wrong & {"agreement_errors", "revised_decisions"}, summary
        assert summary["verdict"] == "violated"


def changes(records: np.ndarray[Any, np.dtype[Any]]) -> Iterator[tuple[str, np.ndarray[Any, np.dtype[Any]]]]:
    """The records with one report or one control segment changed."""
    reports = np.flatnonzero(
        (records["outcome"] == HopOutcome.REPORT) & (records["tree"] != CONTROL_TREE + ControlKind.END)
    )
    ends = np.flatnonzero(records["tree"] == CONTROL_TREE + ControlKind.END)
    told = np.flatnonzero(
        (records["tree"] == CONTROL_TREE + ControlKind.SUSPICION) & (records["outcome"] == HopOutcome.CONTROL)
    )
    repeated = np.flatnonzero((records["tree"] >= AGAIN_TREE) & (records["tree"] < CONTROL_TREE))
    for at, field, value in (
        (reports[0], "target", 7),
        (reports[1], "segment", 2),
        (reports[2], "sender", 1),
        (ends[0], "segment", RunEnd.EXCLUDED),
        (told[0], "outcome", HopOutcome.LOST),
        (told[-1], "step", 1),
        (repeated[0], "outcome", HopOutcome.DUPLICATE),
        (repeated[-1], "sender", 1),
    ):
        changed = records.copy()
        changed[field][at] = value
        yield f"{field} of row {at}", changed
    for at in (*reports[:2], ends[-1], repeated[0]):
        yield f"without row {at}", np.delete(records, at)
    yield "nobody notices anything", records[records["tree"] < AGAIN_TREE]
    # A decision that is reported again in a later step.
    again = records[(records["outcome"] == HopOutcome.REPORT) & (records["sender"] == 4)].copy()
    again["step"] += 2
    yield "a decision twice", np.sort(np.concatenate([records, again]), order="step", kind="stable")


def test_changed_histories_do_not_hold() -> None:
    plan = Case(CUBE | SHRINK, fault=["crash:001@2"]).plan
    records = sorted_records([played(plan)[0]])
    assert verdict_on(plan, records) is Verdict.HOLDS
    for what, changed in changes(records):
        assert verdict_on(plan, changed) is Verdict.VIOLATED, what


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"on_failure": "shrink"}, "on_failure"),
        ({"on_failure": "agree", "fault_knowledge": "neighbours"}, "on_failure"),
        ({"agreement_steps": 3, "fault_knowledge": "detect:1"}, "agreement_steps"),
        (SHRINK | {"clock": "timed"}, "fault_knowledge"),
        (SHRINK | {"reliable": True}, "on_failure"),
        (SHRINK | {"repair": "next-port"}, "on_failure"),
        (SHRINK | {"port_model": "one-port"}, "on_failure"),
        (SHRINK | {"on_failure": "panic"}, "on_failure"),
        (SHRINK | {"agreement_steps": 0}, "agreement_steps"),
        (SHRINK | {"topology": "hypercube:14"}, "on_failure"),
    ],
)
def test_settings_are_refused(values: Values, field: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _ = Case(CUBE | values).plan
    assert error.value.field == field


@pytest.mark.parametrize(
    ("network", "steps"),
    [
        ("complete:5", 1),
        ("ring:5", 3),
        ("hypercube:3", 4),
        ("hypercube:10", 11),
        ("star:4", 6),
        ("ej:2+3", 4),
    ],
)
def test_news_take_as_long_as_the_fault_diameter(network: str, steps: Step) -> None:
    assert news_steps(parse_topology(network)) == steps


@pytest.mark.slow
def test_bounds_that_were_searched_once() -> None:
    for network, steps in SEARCHED.items():
        assert longest_disjoint_path(parse_topology(network)) == steps

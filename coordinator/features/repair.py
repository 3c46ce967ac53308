"""Repair: a broadcast goes around faults, by requests of the nodes or by other trees."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator.features import journals, reliable
from coordinator.features.base import BrokenAssumption, Evidence, Feature, Findings, ResolvedRun
from coordinator.features.options import LivenessOptions, RepairOptions
from coordinator.scenario.durations import format_duration
from coordinator.scenario.fault_syntax import read_time
from coordinator.scenario.model import Scenario, knowledge_of
from emunode.algorithms.claims import REPAIR, Assumption, Claim
from emunode.algorithms.repair import PlannedRule, rule_of
from emunode.algorithms.tree_collective import TreeCollective
from emunode.errors import ScenarioError
from emunode.faults.kinds import LinkFault, Moment
from emunode.faults.timeline import FaultTimeline
from emunode.model import CollectiveSpec, FaultKnowledge, Port, Rank, Repair
from emunode.protocols.repair.pull import PullRule
from emunode.terminal import plural
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    import polars as pl

NO_REQUEST = frozenset({Assumption.SENT_ONCE, Assumption.NOTHING_OVERDUE, Assumption.NO_WRONG_SUSPICION})
"""The assumptions of the claim that no node sends a request."""


class RepairFeature(Feature):
    """Requests of nodes for overdue segments, or trees that avoid known faults."""

    name = "repair"
    metrics = frozenset(REPAIR)
    unpredictable = "nodes repair what was lost"

    def is_active(self, spec: CollectiveSpec) -> bool:
        return spec.repair is not None

    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        return spec._replace(repair=repair_of(scenario))

    def claims_without_faults(self, run: ResolvedRun, claims: Sequence[Claim]) -> Iterator[Claim]:
        if run.spec.asks:
            rule = rule_of(run.spec)
            assert rule is not None
            yield Claim("repair_requests", 0, "==", f"{rule.citation}: nothing is overdue", assumes=NO_REQUEST)

    def claims_with_faults(self, run: ResolvedRun) -> Iterator[Claim] | None:
        return _pull_claims(run) if run.spec.asks else None

    def broken(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[BrokenAssumption]:
        if not run.spec.asks:
            return
        delayed = run.spec.reliable is not None
        if run.goes_by_events and (delayed or run.spec.detection is not None):
            # Late packets may be overdue and requested; the second copy, by another way, is traffic too.
            yield BrokenAssumption(Assumption.SENT_ONCE, "packets that are late may be asked for")
        elif delayed and not run.goes_by_events:
            why = "packets that wait for acknowledgements may be overdue, and what is asked for comes twice"
            yield BrokenAssumption(Assumption.NOTHING_OVERDUE, why, bounds_hold=True)

    def rows(self, run: ResolvedRun) -> "pl.Expr | None":
        return journals.rows.IS_REQUEST

    def measure(self, run: ResolvedRun, evidence: Evidence) -> Findings:
        return Findings(journals.repair.repair_metrics(run, evidence.journal, evidence.timetable))

    def lines(self, run: ResolvedRun, summary: Mapping[str, Any]) -> Iterator[str]:
        """Yield the cost of the repair in a run with faults."""
        if run.spec.repair is None or not run.faults:
            return
        asked = (("repair_requests", "request"), ("repairs", "repair")) if run.spec.asks else ()
        counts = [plural(summary[name], noun) for name, noun in asked]
        if "repair_links" in summary:
            counts.append(plural(summary["repair_links"], "further link"))
        extra = summary["extra_segments"]
        counts.append(f"{plural(abs(extra), 'segment')} {'more' if extra >= 0 else 'fewer'}")
        late = ""
        if "recovery_steps" in summary:
            late = plural(summary["recovery_steps"], "step")
        elif "recovery_seconds" in summary:
            late = format_duration(summary["recovery_seconds"])
        recovery = late and f"; last delivery {late} later than without faults"
        yield f"repaired by {run.spec.repair.rule}: {', '.join(counts)}{recovery}"

    def violations(self, run: ResolvedRun, evidence: Evidence) -> "Iterable[pl.LazyFrame]":
        return journals.repair.repair_violations(run, evidence.journal, evidence.timetable)


def repair_of(scenario: Scenario) -> Repair | None:
    """Return how a scenario is repaired, None if it is not; ScenarioError if the settings of repair contradict each
    other.
    """
    options = RepairOptions.of(scenario)
    after = options.repair_after
    if options.repair is None:
        return None
    knowledge, detection = knowledge_of(scenario)
    # By default a node is as patient with a packet as with the signs of life of a neighbour.
    repair = Repair(options.repair, after or (detection.after if detection else 1))
    if isinstance(rule_of(CollectiveSpec("", scenario.collective, "", 0, repair=repair)), PlannedRule):
        repair = repair._replace(after=0)
        if knowledge is not FaultKnowledge.ALL:
            reason = f"{options.repair} plans around faults that every node knows; use --fault-knowledge all"
            raise ScenarioError("fault_knowledge", scenario.fault_knowledge, reason)
        if after is not None:
            raise ScenarioError(
                "repair_after", after, f"under {options.repair} no node waits for a packet; leave it out"
            )
        return repair
    heal_at = LivenessOptions.of(scenario).heal_at
    if isinstance(heal_at, str):
        return repair._replace(heal_time=read_time(heal_at) or 0)
    return repair._replace(heal_step=heal_at or 0)


def _pull_claims(run: ResolvedRun) -> Iterator[Claim]:
    """Yield the claims of a rule that requests segments, under faults.

    Every healthy rank is served if a path of healthy links and ranks leads to it and each of these ranks sends a
    request over its link. No other rank can be served if the faults are outages that last from step 1 to the end.
    """
    yield from _service_claims(run)
    if run.spec.reliable is not None:
        # Repair adds traffic, and reaches more nodes than the paths of the trees.
        yield from (claim for claim in reliable.link_claims(run) if claim.name == "delivery_ratio")


class GuaranteedNodes(NamedTuple):
    """The healthy ranks that a path of healthy links and ranks connects to the source."""

    ranks: Collection[Rank]
    complete: bool
    """Whether these are all healthy ranks that own data."""
    ports: int
    """The most ports that one of them asks."""
    levels: int
    """Links from the source to the farthest of them, on the paths of segments and answers."""


def certain_service(run: ResolvedRun) -> GuaranteedNodes | None:
    """Return the ranks that are served for certain; None where nothing is, because bytes are altered or the source fails."""
    spec, topology, faulty, outages = run.spec, run.topology, run.judged.states, run.judged.outages
    algorithm, rule = run.algorithm, rule_of(spec)
    assert isinstance(algorithm, TreeCollective)
    assert isinstance(rule, PullRule)
    # Nodes pass altered bytes on, and request nothing that has arrived.
    if any(fault.alters_payload for fault in run.judged.harmful_faults) or spec.source in faulty:
        return None
    broken: set[tuple[Rank, Port]] = set()
    assert spec.repair is not None
    # A node that lacks something asks each port once more after the links have healed.
    if not spec.repair.heals:
        broken |= {
            (each.sender, each.port)
            for each in run.judged.harmful_faults
            if isinstance(each, LinkFault) and each.breaks
        }
        broken |= set(outages.links) if outages is not None else set()
    # A request has to cross the link in one direction, and its answer in the other.
    broken |= {topology.end(*link) for link in broken}
    receivers = [rank for rank in topology.data_ranks if rank not in faulty and rank != spec.source]
    # A lower bound: without every link that is ever broken in either direction.
    trees = range(algorithm.trees.count)
    reached = [_reached(rule, algorithm, tree, faulty, broken) for tree in trees]
    served = {rank for rank in receivers if all(rank in each for each in reached)}
    ports = max((len(rule.ports(algorithm, each, tree)) for tree in trees for each in algorithm.reached), default=0)
    levels = max((level for each in reached for level in each.values()), default=0)
    return GuaranteedNodes(served, len(served) == len(receivers), ports, levels)


def _service_claims(run: ResolvedRun) -> Iterator[Claim]:
    spec, topology, faulty, outages = run.spec, run.topology, run.judged.states, run.judged.outages
    algorithm, rule = run.algorithm, rule_of(spec)
    assert isinstance(algorithm, TreeCollective)
    assert isinstance(rule, PullRule)
    service = certain_service(run)
    if service is None:
        return
    receivers = [rank for rank in topology.data_ranks if rank not in faulty and rank != spec.source]
    certain = len(service.ranks)
    exact = False
    # A fault at a time may begin when the first packets of its step have crossed.
    exact_steps = not any(isinstance(fault.step, Moment) and fault.step for fault in run.translated)
    if outages is not None and outages.permanent and exact_steps:
        # An upper bound: without the directions that are always broken, even if no request can cross. If both are
        # equal, the number is exact.
        possible = _served(rule, algorithm, outages.nodes, outages.links)
        exact = certain == sum(rank in possible for rank in receivers)
    source = f"{rule.citation}: every node that healthy nodes and links connect to the source"
    yield Claim("intact_deliveries", certain * spec.messages, "==" if exact else ">=", source)


def _served(
    rule: PullRule, algorithm: TreeCollective, gone: Container[Rank], broken: Container[tuple[Rank, Port]]
) -> frozenset[Rank]:
    """Return the ranks that the segments of every tree can reach, without some ranks and directed links."""
    # A message has segments on every tree, and a rank needs all of them.
    reached = [frozenset(_reached(rule, algorithm, tree, gone, broken)) for tree in range(algorithm.trees.count)]
    return reached[0].intersection(*reached[1:])


def _reached(
    rule: PullRule, algorithm: TreeCollective, tree: int, gone: Container[Rank], broken: Container[tuple[Rank, Port]]
) -> dict[Rank, int]:
    """Return the ranks that a tree's segments can reach, with their distances.

    A segment travels over the arcs of the tree, and over links where a rank requests it. The distance is the number of
    links on the way.
    """
    topology, source = algorithm.topology, algorithm.spec.source
    # From each rank that may send a segment to the ranks that would receive it there: the parent in the tree, and the
    # neighbours that the rule sends requests to, seen from the other end.
    onward: dict[Rank, list[Rank]] = {}
    for relative in algorithm.reached:
        rank = topology.absolute(relative, source)
        for port in {*rule.ports(algorithm, relative, tree), algorithm.trees.parent(relative, tree)}:
            # The segment crosses from the neighbour to the rank, so the end at the neighbour must work. A rank that is
            # gone receives nothing, and therefore sends nothing.
            if rank not in gone and topology.end(rank, port) not in broken:
                onward.setdefault(topology.neighbour(rank, port), []).append(rank)
    reached = {source: 0}
    order = [source]
    for sender in order:
        for rank in onward.get(sender, ()):
            if rank not in reached:
                reached[rank] = reached[sender] + 1
                order.append(rank)
    return reached

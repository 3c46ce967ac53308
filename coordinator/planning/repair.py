"""Repair in a plan: its settings, what it is refused for, and the claims of runs that are repaired."""

from collections.abc import Collection, Container, Iterator, Sequence

from coordinator.dependence.outages import Outages
from coordinator.scenario.model import Scenario, knowledge_of
from emunode.algorithms.claims import Claim
from emunode.algorithms.repair import PlannedRule, rule_of
from emunode.algorithms.tree_collective import TreeCollective
from emunode.errors import ScenarioError
from emunode.faults.kinds import Fault, LinkFault
from emunode.model import CollectiveSpec, FaultKnowledge, Port, Rank, Repair
from emunode.protocols.repair.pull import PullRule


def repair_of(scenario: Scenario) -> Repair | None:
    """How a scenario is repaired, None if it is not; ScenarioError if its settings contradict each other."""
    after = scenario.repair_after
    if scenario.repair is None:
        if after is not None:
            raise ScenarioError("repair_after", after, "only repair has it; add --repair")
        return None
    knowledge, detection = knowledge_of(scenario)
    repair = Repair(scenario.repair, after or (detection.after if detection else 1))
    if isinstance(rule_of(CollectiveSpec("", scenario.collective, "", 0, repair=repair)), PlannedRule):
        repair = repair._replace(after=0)
        if knowledge is not FaultKnowledge.ALL:
            reason = f"{scenario.repair} plans around faults that every node knows; use --fault-knowledge all"
            raise ScenarioError("fault_knowledge", scenario.fault_knowledge, reason)
        if after is not None:
            raise ScenarioError(
                "repair_after", after, f"under {scenario.repair} no node waits for a packet; leave it out"
            )
    return repair


def claims_without_faults(spec: CollectiveSpec) -> list[Claim]:
    """The claims that repair adds to those of a run without faults; over reliable links packets keep no timetable."""
    rule = rule_of(spec)
    if not isinstance(rule, PullRule) or spec.reliable is not None:
        return []
    return [Claim("repair_requests", 0, "==", f"{rule.citation}: nothing is overdue")]


def claims_with_faults(
    algorithm: TreeCollective,
    faults: Sequence[Fault],
    faulty: Collection[Rank],
    outages: Outages | None,
    *,
    exact_steps: bool,
) -> Iterator[Claim]:
    """The claims of a rule by which nodes ask, under faults; `outages` are all that they amount to, or None.

    Every healthy rank is served to which a path of healthy links and ranks leads, each of which asks over its link. No other
    one can be if the faults are outages from step 1 to the end, and begin with it (`exact_steps`).
    """
    spec, topology, rule = algorithm.spec, algorithm.topology, rule_of(algorithm.spec)
    assert isinstance(rule, PullRule)
    # Altered bytes are handed on, and no node asks again.
    if any(fault.alters_payload for fault in faults) or spec.source in faulty:
        return
    broken = {(each.sender, each.port) for each in faults if isinstance(each, LinkFault) and each.breaks}
    broken |= set(outages.links) if outages is not None else set()
    # A request has to cross the link, and its answer comes back.
    broken |= {topology.end(*link) for link in broken}
    receivers = [rank for rank in topology.data_ranks if rank not in faulty and rank != spec.source]
    served = _served(rule, algorithm, faulty, broken)
    certain = sum(rank in served for rank in receivers)
    exact = False
    if outages is not None and outages.permanent and exact_steps:
        possible = _served(rule, algorithm, outages.nodes, outages.links)
        exact = certain == sum(rank in possible for rank in receivers)
    source = f"{rule.citation}: every node that healthy nodes and links connect to the source"
    yield Claim("intact_deliveries", certain * spec.messages, "==" if exact else ">=", source)


def _served(
    rule: PullRule, algorithm: TreeCollective, gone: Container[Rank], broken: Container[tuple[Rank, Port]]
) -> frozenset[Rank]:
    """The ranks that the segments of every tree can reach, without some ranks and directed links."""
    reached = [_reached(rule, algorithm, tree, gone, broken) for tree in range(algorithm.trees.count)]
    return reached[0].intersection(*reached[1:])


def _reached(
    rule: PullRule, algorithm: TreeCollective, tree: int, gone: Container[Rank], broken: Container[tuple[Rank, Port]]
) -> frozenset[Rank]:
    """The ranks that the segments of a tree can reach: over its arcs, and over those by which ranks ask for them."""
    topology, source = algorithm.topology, algorithm.spec.source
    onward: dict[Rank, list[Rank]] = {}
    for relative in algorithm.reached:
        rank = topology.absolute(relative, source)
        for port in {*rule.ports(algorithm, relative, tree), algorithm.trees.parent(relative, tree)}:
            if rank not in gone and topology.end(rank, port) not in broken:
                onward.setdefault(topology.neighbour(rank, port), []).append(rank)
    reached = [source]
    found = {source}
    for sender in reached:
        new = [rank for rank in onward.get(sender, ()) if rank not in found]
        found.update(new)
        reached += new
    return frozenset(found)

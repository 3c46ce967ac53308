"""The ranks that requests serve for certain: claims about deliveries, and how long they take."""

from collections.abc import Collection, Container, Iterator
from typing import NamedTuple

from coordinator.annexes import annex_function
from coordinator.features.base import ResolvedRun
from coordinator.features.liveness import Bound, calm_from
from emunode.algorithms.claims import Assumption, Claim
from emunode.algorithms.tree_collective import TreeCollective, original_of
from emunode.annexes.repair.pull import PullRule
from emunode.annexes.repair.rules import rule_of
from emunode.faults.kinds import LinkFault, Moment
from emunode.model import CollectiveSpec, Port, PortModel, Rank

NO_REQUEST = frozenset({Assumption.SENT_ONCE, Assumption.NOTHING_OVERDUE, Assumption.NO_WRONG_SUSPICION})
"""The assumptions of the claim that no node sends a request."""


def no_request(spec: CollectiveSpec) -> Claim:
    """Return the claim that no node sends a request in a run without faults."""
    rule = rule_of(spec)
    assert rule is not None
    return Claim("repair_requests", 0, "==", f"{rule.citation}: nothing is overdue", assumes=NO_REQUEST)


def pull_claims(run: ResolvedRun) -> Iterator[Claim]:
    """Yield the claims of a rule that requests segments, under faults.

    Every healthy rank is served if a path of healthy links and ranks leads to it and each of these ranks sends a
    request over its link. No other rank can be served if the faults are outages that last from step 1 to the end.
    """
    yield from _service_claims(run)
    if run.spec.reliable is not None:
        # Repair adds traffic, and reaches more nodes than the paths of the trees.
        link_claims: Iterator[Claim] = annex_function("claims of reliable links")(run)
        yield from (claim for claim in link_claims if claim.name == "delivery_ratio")


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


def time_of_requests(run: ResolvedRun) -> Bound | None:
    """Return the bound on a repair by requests if healthy nodes and links connect every healthy node with the source."""
    spec, repair = run.spec, run.spec.repair
    assert repair is not None
    if run.scenario.clock == "timed" or spec.reliable is not None or spec.port_model is not PortModel.ALL_PORT:
        return None
    # Several segments on one link wait for each other.
    if spec.messages * run.algorithm.segments_per_message > 1:
        return None
    service, calm = certain_service(run), calm_from(run)
    if service is None or calm is None or not service.complete:
        return None
    # The last copy is overdue `after` steps after its step; each port asked takes two steps, and each hop one more.
    last = original_of(run.algorithm).final_step
    if last is None:
        return None
    asked = 2 * service.ports
    most = max(last + repair.after + asked, repair.heal_step and repair.heal_step + 2 * asked) + service.levels
    formula = "the steps without faults, K, two for each port that a node asks, and one for each hop"
    if repair.heal_step:
        formula += ", or two rounds of requests and the hops from the end of the faults on"
    why = "healthy nodes and links connect every healthy node with the source"
    return Bound(max(0, most - calm.start + 1), why, formula)

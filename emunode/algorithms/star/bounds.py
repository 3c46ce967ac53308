"""Lower bounds of the star graph's papers, as claims on the runs that they concern.

In unit steps (one message a directed link and step) they are those of Fragopoulou and Akl: TR 93-346, section 2 and
tables 1 to 4, and for x copies of every message the lower bounds of their 1996 paper on edge-disjoint trees, whose
table numbers are lost in the only available text. In time, Ts for a start-up and Tc for a byte, they are lemmas 1 and 2
of Tseng and Sheu, each the maximum of its terms.
"""

from math import factorial

from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Claim, cut_into, lower_bound, one_segment
from emunode.model import Collective, CollectiveSpec, PortModel
from emunode.topologies.base import Topology

REPORT = "Fragopoulou-Akl 1993 (TR 93-346)"
DISJOINT = "Fragopoulou-Akl 1996 (edge-disjoint trees)"
MULTIPLE = "Tseng-Sheu 1997"


def total_distance(topology: Topology) -> int:
    """Return t_n = n! (n + 2/n + H_n - 4), the sum of all distances from one node."""
    return sum(distance * nodes for distance, nodes in enumerate(topology.distribution_from(0)))


def sum_of_depths(topology: Topology) -> int:
    """Return d, the sum of the depths of all nodes in one tree of EDT: t_n + 3(n-2)(n-1)! - 2(n-2)! + 2.

    2(n-1)! - 1 nodes lie at their distance; of the others, c2 lie 2 and c4 lie 4 deeper, c2 + c4 = (n-2)(n-1)! and c2 -
    c4 = 2(n-2)! - 2. Found by enumeration of the trees; it holds for n = 3..9.
    """
    n = topology.degree + 1
    # Found by enumeration, not proved: see the docstring for the range.
    return total_distance(topology) + 3 * (n - 2) * factorial(n - 1) - 2 * factorial(n - 2) + 2


def unit_bounds(topology: Topology, spec: CollectiveSpec, copies: int) -> list[Claim]:
    """Return the fewest steps and transmissions if every source has `copies` unit messages for all ranks, or for each
    target.

    A node (the busiest) sends or receives a given number of messages over n-1 links or, over one port, over one; every
    message travels at least its distance.
    """
    order, t_n = topology.order, total_distance(topology)

    def where(table: int, problem: str) -> str:
        if spec.redundancy > 1:
            return f"{DISJOINT}, fault-tolerant {problem}"
        return f"{REPORT}, section 2 and tables {table} and 4 ({problem})"

    match spec.collective:
        case Collective.BROADCAST | Collective.REDUCE:
            busiest, hops, cited = copies, copies * (order - 1), f"{DISJOINT}, single node broadcast"
            load, moved = "M", "M (n!-1)"
        case Collective.ALLGATHER | Collective.REDUCE_SCATTER:
            busiest, hops, cited = copies * (order - 1), copies * order * (order - 1), where(1, "multinode broadcast")
            load, moved = "M (n!-1)", "M n! (n!-1)"
        case Collective.SCATTER | Collective.GATHER:
            busiest, hops, cited = copies * (order - 1), copies * t_n, where(2, "single node scattering")
            load, moved = "M (n!-1)", "M t_n"
        case Collective.ALLTOALL:
            busiest, hops, cited = copies * t_n, copies * order * t_n, where(3, "total exchange")
            load, moved = "M t_n", "M n! t_n"
        case Collective.ALLREDUCE | Collective.UNICAST:
            return []
    # All-port, the n-1 links of the busiest node share the load; one-port, a node handles one message per step.
    one_port = spec.port_model is PortModel.ONE_PORT
    steps = busiest if one_port else -(-busiest // topology.degree)
    formula = load if one_port else f"ceil({load} / (n-1))"
    if spec.collective in (Collective.BROADCAST, Collective.REDUCE):
        # A pipeline: the last message leaves the source after all others and has D_n links to cross.
        steps += topology.diameter - 1
        formula += " + D_n - 1"
    copied = ", M counts all copies" if spec.redundancy > 1 else ""
    # Every message has one segment at least, and whatever is cut further has more to move.
    segments = copies // (spec.messages * spec.redundancy)
    return [
        lower_bound("steps", steps, f"{cited}: lower bound {formula}{copied}", one_segment(segments)),
        lower_bound("segments", hops, f"{cited}: lower bound {moved}{copied}", cut_into(segments)),
    ]


def time_bounds(topology: Topology, spec: CollectiveSpec) -> list[Claim]:
    """Return the fewest consecutive start-ups, and the fewest bytes on one link, in a broadcast or an allgather (lemmas
    1 and 2).
    """
    one_port = spec.port_model is PortModel.ONE_PORT
    # Each node receives from all sources, a broadcast has one.
    sources = topology.order - 1 if spec.collective in (Collective.ALLGATHER, Collective.REDUCE_SCATTER) else 1
    received = sources * spec.messages * spec.message_bytes * spec.redundancy
    # One-port, the number of nodes that have the message at most doubles in a step.
    startups = max(topology.diameter, (topology.order - 1).bit_length() if one_port else 0)
    lemma = f"{MULTIPLE}, lemma {2 if spec.collective in (Collective.ALLGATHER, Collective.REDUCE_SCATTER) else 1}"
    return [
        lower_bound("startups", startups, f"{lemma}: diameter{', ceil(log2 n!)' if one_port else ''}"),
        lower_bound("transfer_bytes", spec.least(received, 1 if one_port else topology.degree), f"{lemma}: bandwidth"),
    ]


def least_time(topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> Claim:
    """Return the larger of the two lower bounds, in seconds.

    The lemmas state a maximum: one term holds if bytes cost nothing, the other if start-ups do not.
    """
    startups, transferred = time_bounds(topology, spec)
    # The relation ">=" of `time_bounds` always has whole numbers, but mypy cannot know that.
    assert isinstance(startups.predicted, int)
    assert isinstance(transferred.predicted, int)
    seconds = max(startup * startups.predicted, per_byte * transferred.predicted)
    lemma = startups.source.partition(":")[0]
    return lower_bound("virtual_seconds", seconds, f"{lemma}: the larger of start-ups and bandwidth")


class TimeBounded(Algorithm):
    """An algorithm whose time is bounded from below by a maximum instead of a sum of start-ups and bytes."""

    family = "star"

    def cost_claims(self, startup: float, per_byte: float) -> list[Claim]:
        # The base class adds the two bounds into a sum, but that is more than the lemma states.
        claims = [claim for claim in super().cost_claims(startup, per_byte) if claim.relation != ">="]
        return [*claims, least_time(self.topology, self.spec, startup, per_byte)]

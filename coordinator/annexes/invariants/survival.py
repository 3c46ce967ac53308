"""Survival of independent failures: how many sets of failed elements are survived, by size, and how probable survival
is.

Every element fails with probability q. If N_k of the sets of k elements are survived, the network survives with probability
R = sum of N_k q^k (1 - q)^(m - k) over k = 0 .. m.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate
from math import comb
from typing import ClassVar, Final

from coordinator.annexes.invariants.base import Budget, Invariant, InvariantNetwork, InvariantValue, NotKnownError
from coordinator.annexes.invariants.graph_connectivity import breadth_first_order
from coordinator.annexes.invariants.separations import disconnecting, search_work
from emunode.errors import ScenarioError
from emunode.model import Rank
from emunode.topologies.base import Topology

WIDEST_FRONTIER: Final = 12
"""Most nodes of a frontier. The number of its partitions, 4 million for 12 nodes, bounds the work for each link."""
LINK_WORK: Final = 12
"""Work to decide a link in one state of the frontier."""
WORD_WORK: Final = 0.004
"""More work for each 64 bits of the count of that state."""
LEAST_SHARE: Final = 1 / 3
"""States per partition of the frontier less one node, at least: from 0.36 to 4 in 18 networks of every shape."""
RATES: Final = (0.01, 0.05, 0.1)
"""The probabilities of failure with a printed survival."""


def reliability(survived: Sequence[int], elements: int, rate: float) -> float:
    """Return R, where each of some elements fails with probability `rate`; `survived[k]` sets of k failures are
    survived.
    """
    # In whole numbers, because the numbers of sets of large networks are beyond every float.
    lost, all_cases = Fraction(str(rate)).as_integer_ratio()
    kept = all_cases - lost
    cases, power = 0, 1  # Horner's rule: numbers of thousands of digits are multiplied by short ones only
    for sets in reversed(survived):
        cases, power = cases * lost + sets * power, power * kept
    share: float = cases * kept ** (elements + 1 - len(survived)) / all_cases**elements
    return share


class Survival(Invariant):
    """An invariant that counts survived sets by size."""

    elements: ClassVar[str]
    """The elements that fail: `nodes` or `links`."""

    def rates(self, network: InvariantNetwork, survived: Sequence[int]) -> dict[float, float]:
        """Return probability of failure -> probability of survival."""
        elements = network.order if self.elements == "nodes" else len(network.links)
        return {rate: reliability(survived, elements, rate) for rate in RATES}


class NodeResidual(Survival):
    """Sets of failed nodes that leave the rest connected, with at least one node."""

    name = "node_residual"
    meaning = "sets of k = 0 .. N - 1 failed nodes that leave a connected rest"
    elements = "nodes"

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        sizes = range(network.order)
        # All sizes are paid for in advance: sizes in the middle would take most of the work.
        for failed in sizes:
            budget.spend(search_work(network, failed))
        paid = Budget(float("inf"))
        return tuple(comb(network.order, failed) - disconnecting(network, failed, paid) for failed in sizes)


class AllTerminalReliability(Survival):
    """Sets of failed links that leave the network connected."""

    name = "all_terminal_reliability"
    meaning = "sets of k = 0 .. M failed links that leave the network connected"
    elements = "links"

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        return joining_sets(network, frozenset(range(network.order)), budget)


class TwoTerminalReliability(Survival):
    """Sets of failed links that leave a path from rank 0 to another node."""

    name = "two_terminal_reliability"
    meaning = (
        "sets of k = 0 .. M failed links that leave a path from rank 0 to a node: a neighbour, a farthest, or a label"
    )
    parameter = "target"
    usual = ("neighbour", "farthest")
    elements = "links"

    def check(self, topology: Topology, parameter: str) -> None:
        if parameter not in self.usual and topology.rank(parameter) == 0:
            allowed = f"{self.name}:TARGET with {', '.join(self.usual)} or the label of another node than rank 0"
            raise ScenarioError("figure", f"{self.name}:{parameter}", allowed)

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        topology = network.topology
        if parameter == "neighbour":
            target = network.adjacency[0][0]
        elif parameter == "farthest":
            distances = topology.distances_from(0)
            target = distances.index(max(distances))
        else:
            target = topology.rank(parameter)
        return joining_sets(network, frozenset((0, target)), budget)


Blocks = tuple[int, ...]
"""By place in the frontier the number of the block of a node, in order of appearance; negative if it holds no terminal."""


def joining_sets(network: InvariantNetwork, terminals: frozenset[Rank], budget: Budget) -> tuple[int, ...]:
    """Return for k = 0, 1, .. failed links the number of sets that leave the terminals joined.

    The links are decided one after another, in breadth-first order of their ends. The *frontier* are the nodes with
    both decided and undecided links, and decided links matter only by how they join these nodes. All sets of working
    links with equal partitions of the frontier are counted together, by size: the counts are digits of one number, in
    base 2^(links + 1).
    """
    links = network.links
    place = {rank: at for at, rank in enumerate(breadth_first_order(network.adjacency))}
    # By the later end: all links among the first nodes are decided first, so that the frontier stays narrow.
    ordered = sorted(((place[one], place[other]) for one, other in links), key=lambda link: (max(link), min(link)))
    marked = {place[rank] for rank in terminals}
    # A node leaves the frontier with its last link.
    last = {node: at for at, link in enumerate(ordered) for node in link}
    _require_narrow(ordered, last, budget)
    digit = len(links) + 1
    total, frontier, waiting = 0, list[int](), set(marked)
    states: dict[Blocks, int] = {(): 1}
    for at, (one, other) in enumerate(ordered):
        entering = [node for node in (one, other) if node not in frontier]
        frontier += entering
        waiting -= {*entering}
        fresh = [node in marked for node in entering]
        first, second = frontier.index(one), frontier.index(other)
        # By position, because a state has the blocks of the frontier by position.
        leaving = [index for index, node in enumerate(frontier) if last[node] == at]
        undecided = len(links) - at - 1
        following: dict[Blocks, int] = {}
        # A count has a digit for each number of working links so far.
        budget.spend((LINK_WORK + WORD_WORK * digit * (at + 1) / 64) * len(states))
        for state, count in states.items():
            blocks = _enter(state, fresh)
            # A failed link leaves the blocks as they are; a working link joins two of them, and moves the counts to the
            # next digit.
            for joined, ways in ((blocks, count), (_join(blocks, first, second), count << digit)):
                # Terminals that have not entered the frontier yet cannot be joined to the others.
                if not waiting and len({block for block in joined if block > 0}) == 1:
                    # All terminals are joined: the undecided links are free.
                    # The power is the binomial theorem in base 2^digit: its digits count the choices of working links.
                    # No digit overflows, because all sets together are 2^links.
                    total += ways * (1 + (1 << digit)) ** undecided
                elif (rest := _leave(joined, leaving)) is not None:
                    following[rest] = following.get(rest, 0) + ways
        frontier = [node for node in frontier if last[node] != at]
        states = following
    by_working = [total >> digit * working & (1 << digit) - 1 for working in range(len(links) + 1)]
    # By failed links in place of working ones.
    return tuple(reversed(by_working))


def _require_narrow(ordered: Sequence[Sequence[int]], last: dict[int, int], budget: Budget) -> None:
    """Raise NotKnownError if too many nodes have both decided and undecided links at some time, or if their partitions
    take more work than is allowed.
    """
    seen, done, widest, partitions = set[int](), 0, 0, 0
    for at, link in enumerate(ordered):
        seen.update(link)
        # While the link is decided, its ends are in the frontier.
        # A frontier that is refused below is not counted: its number would be as long as the frontier.
        partitions += _bell_number(min(len(seen) - done - 1, WIDEST_FRONTIER + 1))
        done += sum(last[node] == at for node in link)
        widest = max(widest, len(seen) - done)
    if widest > WIDEST_FRONTIER:
        raise NotKnownError(f"the frontier of {widest} nodes is wider than {WIDEST_FRONTIER}")
    budget.require(LINK_WORK * LEAST_SHARE * partitions)


@cache
def _bell_number(nodes: int) -> int:
    """Return how many partitions a set of at least one node has."""
    row = [1]
    for _ in range(nodes - 1):
        row = list(accumulate(row, initial=row[-1]))
    return row[-1]


def _enter(state: Blocks, fresh: Sequence[bool]) -> Blocks:
    """Return the state with more nodes, each a block of its own; `fresh` tells terminals from other nodes."""
    number = max(map(abs, state), default=0)
    return (*state, *((number + more if terminal else -number - more) for more, terminal in enumerate(fresh, 1)))


def _join(blocks: Blocks, first: int, second: int) -> Blocks:
    one, other = blocks[first], blocks[second]
    if one == other:
        return blocks
    # A block that holds a terminal keeps its number.
    kept, gone = (one, other) if one > 0 else (other, one)
    return tuple(kept if block == gone else block for block in blocks)


def _leave(blocks: Blocks, leaving: Sequence[int]) -> Blocks | None:
    """Return the state without some nodes, its blocks renumbered; None if a terminal is cut off from the others."""
    left = [block for index, block in enumerate(blocks) if index not in leaving] if leaving else blocks
    # A block with a terminal but without a node in the frontier can be joined to no other.
    if any(blocks[index] > 0 and blocks[index] not in left for index in leaving):
        return None
    numbers: dict[int, int] = {}
    # Numbered in order of appearance: equal partitions have to be equal keys, however they came about.
    return tuple(numbers.setdefault(abs(block), len(numbers) + 1) * (1 if block > 0 else -1) for block in left)

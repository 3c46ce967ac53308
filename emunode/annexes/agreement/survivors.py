"""A collective that runs again on the rest of a network.

Without the links that are given up a network falls into parts. The largest part continues; ties go to the lowest rank. The
nodes of all other parts are excluded. So two parts never both continue, even if a link between them only seemed dead. The
nodes of the largest part are renumbered in the order of their ranks, and run an algorithm for any network. Every rank
computes the same part from the decision that all ranks have in common.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from emunode.algorithms.base import Algorithm
from emunode.algorithms.payload import Payloads
from emunode.algorithms.registry import find_algorithm, make_algorithm, with_blocks
from emunode.errors import ScenarioError
from emunode.model import (
    AGAIN_TREE,
    ALL_RANKS,
    CONTROL_TREE,
    OWN_CAPACITY,
    ROOTLESS,
    Collective,
    CollectiveSpec,
    FaultKnowledge,
    Port,
    Rank,
)
from emunode.topologies.base import Topology
from emunode.topologies.table import TableTopology

ALGORITHMS: Final[Mapping[Collective, str]] = {
    Collective.BROADCAST: "bfs-tree",
    Collective.SCATTER: "bfs-tree",
    Collective.GATHER: "bfs-tree",
    Collective.REDUCE: "bfs-tree",
    Collective.ALLREDUCE: "bfs-tree",
    Collective.ALLGATHER: "bfb",
    Collective.REDUCE_SCATTER: "bfb",
    Collective.ALLTOALL: "list-schedule",
    Collective.UNICAST: "minimal",
}
"""By collective, the algorithm for any network that runs it again."""
TREES: Final = 256
"""Trees of one repetition: its segments are on the trees from `AGAIN_TREE` + TREES x its number on."""
MOST_RUNS: Final = (CONTROL_TREE - AGAIN_TREE) // TREES
"""Repetitions of a collective at most."""
LinkEndSet = frozenset[tuple[Rank, Port]]


class RunEnd(IntEnum):
    """How the collective ends for a rank after a decision; all but the first are errors."""

    REPEATED = 0
    """The collective runs again."""
    EXCLUDED = 1
    """The rank is not in the largest part of the network."""
    ROOT_FAILED = 2
    """The source or the target of the collective is not in the part of the rank."""
    NO_ALGORITHM = 3
    """No algorithm for any network can do the collective on the rest of the network."""
    TOO_MANY_FAILURES = 4
    """The collective has been repeated `MOST_RUNS` times."""


class NetworkPart(NamedTuple):
    """One part of a network, and the end of the collective for its nodes."""

    ranks: tuple[Rank, ...]
    """By new rank, the old one."""
    end: RunEnd
    algorithm: Algorithm | None = None
    """The algorithm of the next run; None after an error, and for a single rank: there is nothing to do."""


class RenumberedPayloads(Payloads):
    """The messages of the first run between renumbered ranks."""

    def __init__(self, ranks: tuple[Rank, ...], *arguments: Any) -> None:
        self._ranks = ranks
        super().__init__(*arguments)

    def message_name(self, origin: Rank, target: Rank, number: int) -> str:
        ranks = self._ranks
        return super().message_name(ranks[origin], target if target == ALL_RANKS else ranks[target], number)


# Cached: all ranks of a host ask for the same part after the same decision.
@lru_cache(maxsize=16)
def parts_of(topology: Topology, links: LinkEndSet) -> tuple[tuple[Rank, ...], ...]:
    """Return the parts of a network without these links, each link named by either end: ranks ascending, the largest
    part first.
    """
    # Both ends, since a link is named by either.
    given_up = {end for link in links for end in (link, topology.end(*link))}
    left = dict.fromkeys(topology.ranks())
    found = []
    while left:
        part = [next(iter(left))]
        del left[part[0]]
        # The list grows while it is read: breadth first without a second queue.
        for rank in part:
            for port, peer in topology.adjacent(rank):
                if peer in left and (rank, port) not in given_up:
                    del left[peer]
                    part.append(peer)
        found.append(tuple(sorted(part)))
    # Largest first, then lowest rank: all ranks that know the same links choose the same part.
    return tuple(sorted(found, key=lambda ranks: (-len(ranks), ranks[0])))


@lru_cache(maxsize=16)
def largest_part(topology: Topology, spec: CollectiveSpec, links: LinkEndSet, number: int) -> NetworkPart:
    """Return the part that continues, for the repetition with this number, from 0."""
    ranks = parts_of(topology, links)[0]
    # The trees of a further repetition would be taken for control segments.
    if number >= MOST_RUNS:
        return NetworkPart(ranks, RunEnd.TOO_MANY_FAILURES)
    # Under a permutation every rank is a source for a target of its own, and no rank matters to all.
    rooted = spec.collective not in ROOTLESS and not spec.permutation
    roots = {spec.source, spec.target} - {ALL_RANKS} if rooted else set()
    if not roots.issubset(ranks):
        return NetworkPart(ranks, RunEnd.ROOT_FAILED)
    if len(ranks) == 1:
        # It has its own data, and no other rank is left to exchange data with.
        return NetworkPart(ranks, RunEnd.REPEATED)
    # After the checks that need no network: to build one takes time in proportion to its links.
    network = sub_network(topology, ranks, links)
    try:
        again = _spec_on(network, spec, ranks)
        algorithm = make_algorithm(network, with_blocks(find_algorithm(network, again), network, again))
    # Every rank computes the same refusal from the same decision, so all end alike.
    except ScenarioError:
        return NetworkPart(ranks, RunEnd.NO_ALGORITHM)
    # The messages keep their contents, named by the old ranks: a repetition has the deliveries of the first run.
    algorithm.use_payloads(algorithm.make_payloads(partial(RenumberedPayloads, ranks)))
    return NetworkPart(ranks, RunEnd.REPEATED, algorithm)


def sub_network(
    topology: Topology, ranks: tuple[Rank, ...], links: Collection[tuple[Rank, Port]] = ()
) -> TableTopology:
    """Return the network of these ranks, renumbered, without some links."""
    given_up = {end for link in links for end in (link, topology.end(*link))}
    new = {rank: number for number, rank in enumerate(ranks)}
    # Each link once, at its lower rank: the table adds the other direction.
    kept = [
        (number, new[peer])
        for rank, number in new.items()
        for port, peer in topology.adjacent(rank)
        if peer in new and rank < peer and (rank, port) not in given_up
    ]
    switches = [number for rank, number in new.items() if topology.is_switch(rank)]
    # With the old labels, so that messages and logs name a node as before.
    return TableTopology("survivors", map(topology.label, ranks), kept, switches=switches)


def spec_again(spec: CollectiveSpec) -> CollectiveSpec:
    """Return the collective as it runs again, on the whole network: without redundancy, over plain links."""
    return spec._replace(
        algorithm=ALGORITHMS[spec.collective],
        # The vector as a whole: it is cut for the ranks that are left.
        message_bytes=spec.contributed_bytes,
        blocks=1,
        short_blocks=0,
        redundancy=1,
        link_capacity=OWN_CAPACITY,
        knowledge=FaultKnowledge.NONE,
        broken=(),
        program="",
        reliable=None,
        detection=None,
        repair=None,
        agreement=None,
    )


def _spec_on(network: Topology, spec: CollectiveSpec, ranks: tuple[Rank, ...]) -> CollectiveSpec:
    new = {rank: number for number, rank in enumerate(ranks)}
    # A rank whose target is gone sends nothing.
    permutation = tuple(new.get(spec.permutation[rank], new[rank]) for rank in ranks) if spec.permutation else ()
    return spec_again(spec)._replace(
        topology=network.name,
        # Without a root the old rank 0 may be gone; the field is 0 all the same, as in every collective of that sort.
        source=new.get(spec.source, 0),
        # ALL_RANKS is no rank, so it stays.
        target=new.get(spec.target, ALL_RANKS),
        permutation=permutation,
    )

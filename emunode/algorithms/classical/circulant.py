"""Traeff's circulant schedules: broadcasts of n blocks over one port in n - 1 + ceil(log2 p) rounds, the optimum.

With q = ceil(log2 p), s_q = p and s_k = ceil(s_(k+1) / 2), the rank at place r sends in round i to place r + s_k and
receives from r - s_k, where k = i mod q. The blocks follow from `receive_schedule` and `send_schedule`. Every rank
computes these for itself in O(log p) steps, without communication. Block numbers of the schedules count from the
current run of q rounds: -1 is the last block of the run before. (Traeff 2022, arXiv:2205.10072; 2023, arXiv:2312.11236;
2024, arXiv:2407.18004.)

Every rank receives each block once, so the schedule also runs backwards, as a reduce. In an allgather every rank is the root
of such a broadcast, all in the same rounds and over the same links.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from math import ceil, floor, sqrt
from typing import Final

from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.classical.allgather import ONE_WAY, logarithm
from emunode.algorithms.classical.places import Places, natural_places
from emunode.algorithms.scheduled_collective import ScheduledCollective, TimetableRow
from emunode.model import Collective, CollectiveSpec, Duplex, Rank, Step
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.trees.base import CACHE_ENTRIES

CITATION: Final = "Traeff 2022-2024, circulant schedules"


def skips(count: int) -> list[int]:
    """Return the skips s_0 .. s_q for `count` places."""
    sizes = [0] * logarithm(count) + [count]
    for k in range(len(sizes) - 2, -1, -1):
        sizes[k] = -(-sizes[k + 1] // 2)
    return sizes


def base_block(place: int, sizes: Sequence[int]) -> int:
    """Return the first block that a place receives; q for the root."""
    # The smallest skip of the descending sum that leads from the root to the place.
    for k in range(len(sizes) - 2, -1, -1):
        if place == sizes[k]:
            return k
        if place > sizes[k]:
            place -= sizes[k]
    return len(sizes) - 1


def receive_schedule(place: int, sizes: Sequence[int]) -> list[int]:
    """Return the block that a place receives in each round of a run, relative to the run."""
    q, base, count = len(sizes) - 1, base_block(place, sizes), sizes[-1]
    # A doubly linked list of the skips that are still unused, the largest first, with -1 at both ends.
    down = {e: e - 1 for e in range(q + 1)} | {-1: q}
    up = {e: e + 1 for e in range(q)} | {q: -1, -1: 0}
    found: list[int] = []

    def drop(e: int) -> None:
        down[up[e]], up[down[e]] = down[e], up[e]

    def search(at: int, below: int, e: int) -> None:
        """Search sums of unused skips depth-first; accept a sum for round k that the sender can have reached in time."""
        while e != -1:
            k = len(found)
            there = at + sizes[e]
            if k < q and there <= count + place - sizes[k] and there < below:
                if there <= count + place - sizes[k + 1]:
                    search(there, below, e)
                k = len(found)
                if k >= q or at > count + place - sizes[k + 1]:
                    return
                below = there
                found.append(e)
                drop(e)
            e = down[e]

    drop(base)
    search(0, 2 * count, q)
    return [base if e == q else e - q for e in found]


def send_schedule(place: int, sizes: Sequence[int]) -> list[int]:
    """Return the block that a place sends in each round of a run, relative to the run: the block that its receiver
    expects.
    """
    q, count = len(sizes) - 1, sizes[-1]
    if not place:
        return list(range(q))
    base, sent = base_block(place, sizes), [0] * q
    at, end, block = place, count, base_block(place, sizes)
    for k in range(q - 1, 0, -1):
        skip = sizes[k]
        if at < skip:
            known = at + skip < end or end < sizes[k - 1] or (k == 1 and base > 0)
            end_below, at_below = min(end, skip), at
        else:
            block = k - q
            end -= skip
            known = at > skip or at <= end or k == 1 or end < sizes[k - 1]
            end_below, at_below = end, at - skip
        # In at most four rounds the block cannot be told from the place alone, and the receiver's schedule is computed.
        sent[k] = block if known else receive_schedule((place + skip) % count, sizes)[k]
        end, at = end_below, at_below
    sent[0] = base - q
    return sent


class CirculantSchedule(ScheduledCollective):
    """The common part of broadcast and allgather: the schedule of one root, seen from there."""

    needs = frozenset({Need.EVERY_NODE, Need.SPECIAL_LINKS})
    family = "any"
    port_models = ONE_WAY
    citation = CITATION

    def __init__(self, topology: Topology, spec: CollectiveSpec) -> None:
        super().__init__(topology, spec)
        # Every rank needs the schedules of its own addresses only; in an allgather one for each root.
        self._receives = lru_cache(CACHE_ENTRIES)(lambda place: receive_schedule(place, self.skips))
        self._sends = lru_cache(CACHE_ENTRIES)(lambda place: send_schedule(place, self.skips))

    def validate(self) -> None:
        self.places: Places = natural_places(self.topology)
        count = self.places.count
        pairs = ((place, (place + skip) % count) for place in range(count) for skip in self.skips[:-1])
        self.places.require(pairs, self.name)
        # Of an even number of places, the last skip leads to the opposite one, from both sides.
        if count % 2 == 0:
            self.duplexes = (Duplex.FULL,)
        super().validate()

    @cached_property
    def skips(self) -> list[int]:
        """s_0 .. s_q."""
        return skips(self.topology.order)

    @property
    def last_step(self) -> Step:
        return len(self.numbers) - 1 + logarithm(self.topology.order)

    def tree(self, segment: int) -> int:
        return segment

    def sends(self, rank: Rank) -> Iterator[TimetableRow]:
        count, place = self.places.count, self.places.place(rank)
        for root in self.roots:
            relative = (place - self.places.place(root)) % count
            for step, k, block in self._blocks(self._sends(relative)):
                # The root has all blocks.
                if (relative + self.skips[k]) % count:
                    yield step, self.places.port(place, (place + self.skips[k]) % count), root, block

    def receipts(self, rank: Rank) -> Iterator[TimetableRow]:
        count, place = self.places.count, self.places.place(rank)
        for root in self.roots:
            relative = (place - self.places.place(root)) % count
            for step, k, block in self._blocks(self._receives(relative)) if relative else ():
                yield step, self.places.port(place, (place - self.skips[k]) % count), root, block

    def _blocks(self, schedule: Sequence[int]) -> Iterator[tuple[Step, int, int]]:
        """Yield (step, k, block) of all rounds that have a block in a schedule."""
        q, blocks = len(schedule), len(self.numbers)
        # The rounds begin so that they end with a whole run.
        first = -(blocks - 1) % q
        for i in range(first, first + blocks + q - 1):
            run, k = divmod(i, q)
            block = schedule[k] + run * q - first
            if block >= 0:
                # The last run has numbers beyond the last block: there the schedule sends the last block.
                yield i - first + 1, k, min(block, blocks - 1)

    def claims(self) -> list[Claim]:
        rounds = f"{CITATION}: n - 1 + ceil(log2 p) rounds"
        return [*super().claims(), Claim("steps", self.last_step, "==", rounds)]


@register
class CirculantBroadcast(CirculantSchedule):
    """Traeff's round-optimal broadcast of n blocks over one port, any p.

    n - 1 + ceil(log2 p) rounds, the lower bound, and n(p - 1) transmissions, none of them twice. `segments` are the blocks.
    It needs links at the distances s_k: circulant networks with these jumps, and complete ones. A node computes its own part
    from its rank, in O(log p). It survives no fault.
    """

    name = "circulant"
    collective = Collective.BROADCAST

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        """Return the number of blocks of each of m messages with the least (mn - 1 + q)(startup + per_byte size / n)."""
        size, most, more = spec.message_bytes, spec.most_parts, logarithm(topology.order) - 1
        # Free start-ups: the smaller the blocks the better, down to one element.
        optimum = sqrt(more * size * per_byte / (startup * spec.messages)) if startup else most
        around = {max(1, whole(min(optimum, most))) for whole in (floor, ceil)}
        return min(sorted(around), key=lambda n: (spec.messages * n + more) * (startup + per_byte * size / n))

    def claims(self) -> list[Claim]:
        return [*super().claims(), Claim("max_link_segments_per_step", 1, "==", f"{CITATION}: one block per packet")]


@register
class CirculantAllgather(CirculantSchedule):
    """Traeff's round-optimal allgather of n blocks per rank over one port, any p: the broadcasts of all ranks at once.

    n - 1 + ceil(log2 p) rounds; every rank receives (p - 1) n blocks, each once. A packet holds one block of every root but
    the receiver. It needs links at the distances s_k. A node computes its own part, O(log p) for each root. It survives no
    fault.
    """

    name = "circulant"
    collective = Collective.ALLGATHER

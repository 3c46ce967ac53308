"""The faults of a campaign point, prepared for counting: those drawn at random, and those of the scenario.

Only faults that can be counted exactly are represented. Everything else gives None, and then theory makes no prediction.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from math import comb, prod
from typing import Final

from coordinator.scenario.fault_draws import FaultSites, eligible
from coordinator.scenario.fault_sets import FIXED, FaultSetSpec, FaultSetTerm
from emunode.algorithms.base import Algorithm
from emunode.faults.byzantine import Silent
from emunode.faults.kinds import FOREVER, Crash, Down, Fault, Hang, Loss, RatedFault
from emunode.model import Rank, Step

NODE_KINDS: Final = frozenset({"crash", "hang", "silent"})
LINK_KINDS: Final = frozenset({"down", "loss"})

Number = int | float | Fraction
Link = tuple[Rank, Rank]
Hop = tuple[Rank, Rank, Step]
"""Sender, receiver, and the step in which the copy crosses."""
Window = tuple[Step, Step]
"""First and last step, both included."""
ALWAYS: Final[Window] = (1, FOREVER)


@dataclass(frozen=True)
class RandomFaults:
    """Random faults: which kinds, on which places, in which steps."""

    nodes: Sequence[Rank]
    """Nodes that may be drawn, without the source: it is healthy in every trial that counts."""
    links: Sequence[Link]
    window: Window
    node_parts: Sequence[FaultSetTerm]
    link_parts: Sequence[FaultSetTerm]
    independent: bool
    """Whether each place fails with a probability of its own, instead of a fixed number of places."""

    @property
    def passing(self) -> list[float]:
        """For each part that strikes links, the probability that a packet passes."""
        # `argument` is the rate with its colon, as in ":0.2".
        return [0.0 if part.kind == "down" else 1 - float(part.argument[1:]) for part in self.link_parts]

    @property
    def lossy(self) -> bool:
        """Whether single packets are lost at random."""
        return any(part.kind == "loss" for part in self.link_parts)

    @property
    def timed(self) -> bool:
        """Whether the step matters in which a copy uses a place."""
        return self.window != ALWAYS or self.lossy

    @property
    def node_counts(self) -> Mapping[int, Number]:
        """Number of nodes that break -> its probability."""
        return self._counts(len(self.nodes), self.node_parts)

    @property
    def link_counts(self) -> Mapping[int, Number]:
        """Number of links that break -> its probability."""
        return self._counts(len(self.links), self.link_parts)

    def _counts(self, places: int, parts: Sequence[FaultSetTerm]) -> Mapping[int, Number]:
        if not self.independent:
            return {sum(part.count for part in parts): 1}
        # A place is whole if no part strikes it; parts draw independently of each other.
        share = 1 - prod(1 - part.share for part in parts)
        if not share:
            return {0: 1}
        return {
            count: comb(places, count) * share**count * (1 - share) ** (places - count) for count in range(places + 1)
        }


def random_faults(fault_set: FaultSetSpec, places: FaultSites) -> RandomFaults | None:
    """The faults that a fault set draws; None for other kinds of faults, and for a set that can never be drawn."""
    first, dash, last = fault_set.when.partition("-")
    parts = [part for part in fault_set.parts if part.count or part.share]
    # Places of a block do not fail independently of each other, and those of a process fail in steps of their own.
    if fault_set.how == "process" or any(part.block for part in parts):
        return None
    # A hang or a silence with an end is not counted: the node takes part again afterwards.
    if any(part.kind not in NODE_KINDS | LINK_KINDS or (part.kind in NODE_KINDS and dash) for part in parts):
        return None
    node_parts, link_parts = ([part for part in parts if part.on_links == on_links] for on_links in (False, True))
    nodes: Sequence[Rank] = eligible(fault_set, node_parts[0], places) if node_parts else ()  # type: ignore[assignment]
    links: Sequence[Link] = eligible(fault_set, link_parts[0], places) if link_parts else ()  # type: ignore[assignment]
    # The places are fixed by the fault-free run.
    if fault_set.how in FIXED:
        nodes = nodes[: sum(part.count for part in node_parts)]
        links = links[: sum(part.count for part in link_parts)]
        if places.sources.intersection(nodes):
            return None
        if len(link_parts) > 1:
            return None  # which link gets which part is fixed, not drawn
    # The source is healthy in every trial that counts; trials with a faulty one are undecided.
    nodes = [rank for rank in nodes if rank != places.algorithm.spec.source]
    if sum(part.count for part in node_parts) > len(nodes) or sum(part.count for part in link_parts) > len(links):
        return None
    window = (int(first), int(last) if dash else FOREVER)
    return RandomFaults(nodes, links, window if parts else ALWAYS, node_parts, link_parts, fault_set.how == "bernoulli")


@dataclass(frozen=True)
class GivenFaults:
    """The faults of the scenario, which every trial has."""

    silent: dict[Rank, Step]
    """Nodes that neither read nor send -> the first such step."""
    down: dict[Link, list[Window]]
    """(sender, receiver) -> steps in which nothing crosses."""
    losses: dict[Link, list[tuple[Window, float]]]
    """(sender, receiver) -> steps in which packets are lost, with the rate."""

    @property
    def timed(self) -> bool:
        """Whether the step matters in which a copy uses a place."""
        # A fault that lasts from step 1 to the end strikes every copy of a tree alike.
        windows = chain(self.down.values(), [[(step, FOREVER) for step in self.silent.values()]])
        return bool(self.losses) or any(window != ALWAYS for each in windows for window in each)

    def breaks(self, path: Iterable[Hop]) -> bool:
        """Whether a copy is lost on its path."""
        return any(
            # The receiver's own silence is not checked: a silent receiver is due nothing.
            self.silent.get(sender, FOREVER) <= step or self._is_down(sender, to, step)
            for sender, to, step in path
        )

    def _is_down(self, sender: Rank, receiver: Rank, step: Step) -> bool:
        return any(_within(step, window) for window in self.down.get((sender, receiver), ()))

    def passing(self, sender: Rank, receiver: Rank, step: Step) -> float:
        """The probability that a packet is not lost at random."""
        losses = self.losses.get((sender, receiver), ())
        return prod(1 - rate for window, rate in losses if _within(step, window))


def _within(step: Step, window: Window) -> bool:
    return window[0] <= step <= window[1]


def given_faults(algorithm: Algorithm, faults: Sequence[Fault]) -> GivenFaults | None:
    """The faults of a scenario; None if any is of another kind or concerns the source."""
    given = GivenFaults({}, {}, {})
    neighbour = algorithm.topology.neighbour
    for fault in faults:
        match fault:
            case Crash(rank=rank) | Hang(rank=rank) | Silent(rank=rank) if (
                fault.end == FOREVER and rank != algorithm.spec.source
            ):
                # The earliest of several crashes of one node decides.
                given.silent[rank] = min(fault.step, given.silent.get(rank, FOREVER))
            case Down(step=step, sender=sender, port=port, last=last):
                given.down.setdefault((sender, neighbour(sender, port)), []).append((step, last))
            case Loss(step=step, sender=sender, port=port, last=last, rate=rate):
                given.losses.setdefault((sender, neighbour(sender, port)), []).append(((step, last), rate))
            case RatedFault(rate=0):
                pass
            case _:
                return None
    return given

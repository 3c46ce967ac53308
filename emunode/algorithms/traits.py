"""Traits that an algorithm states of itself: its timing, its needs, and the dependence of its sends on receipts."""

from enum import StrEnum
from typing import Final, NamedTuple

from emunode.model import Step


class Pipe(NamedTuple):
    """A broadcast down one tree, over all ports, of one segment in each packet: a path is a pipe of links."""

    segments: int
    links: Step
    """The step when the first segment reaches the end of the longest path."""
    period: Step
    """Steps from one segment to the next at the source."""


class Dependence(StrEnum):
    """The things that a send depends on, besides its step."""

    UNSTATED = "unstated"
    """Anything that comes in, or that does not."""
    FIXED = "fixed"
    """The content: a rank sends in the scheduled step what it has, and folds the contributions that it has."""
    WAITING = "waiting"
    """As `FIXED`, but a rank sends only after all packets of earlier steps: `Algorithm.awaited_steps`."""
    QUEUED = "queued"
    """The content alone: a packet keeps its path, but waits in queues, so its step depends on others."""
    LISTED = "listed"
    """The receipts that the schedule lists for it; it need not pass them on: `Algorithm.lost_messages`."""
    FIRST_ARRIVAL = "first arrival"
    """The first of several copies that arrives: `Algorithm.follow`."""


class Timing(StrEnum):
    """The effect of packets that are late, or do not come, on the rules of an algorithm."""

    FIXED = "fixed"
    """A rule assumes that packets arrive in their scheduled step. Late packets are misrouted."""
    ON_ARRIVAL = "on arrival"
    """A rule forwards packets, whenever they arrive, and waits for nothing, so other packets keep their steps."""
    ADAPTIVE = "adaptive"
    """A rule waits for packets, or chooses by the arrivals: where one is missing, others leave in other steps."""


class Need(StrEnum):
    """The needs that an algorithm may have beyond the address of a rank and the links of its network."""

    TABLE = "table"
    """A table of the whole network that ranks compute from the network and the job before the first step. Without it a
    rank derives its sends from its own address. The locality check holds it against what rules ask."""
    EVERY_NODE = "every node"
    """A look at every node of the network in planning; networks of more than `VISITED_ENDS` link ends are refused."""
    SPECIAL_LINKS = "special links"
    """Links that many networks of its families lack; it refuses those."""
    BLOCKS = "blocks"
    """The vector of each rank of an allreduce in one block for each rank; a reduce-scatter always has that."""
    OPEN_CAPACITY = "open capacity"
    """A capacity of packets from the scenario, whatever that is; `link_capacity` is the default."""


FORMER: Final = {
    "precomputed": "needs = frozenset({Need.TABLE})",
    "visits_all": "needs = frozenset({Need.EVERY_NODE})",
    "some_networks": "needs = frozenset({Need.SPECIAL_LINKS})",
    "cuts_vector": "needs = frozenset({Need.BLOCKS})",
    "packs": "needs = frozenset({Need.OPEN_CAPACITY})",
    "fixed_steps": "timing = Timing.FIXED",
    "keeps_time": "timing = Timing.ADAPTIVE",
    "byte_relation": "base.byte_relation(algorithm)",
    "contribution": "contributions(rank, target, segment)",
    "destination": "spec.destination(origin)",
    "keeps_results": "spec.numbers is not None",
    "largest_sent_bytes": "nothing: it follows from largest_segment_bytes",
    "on_schedule": "timing is not Timing.ADAPTIVE",
    "receivers_by_distance": "base.receivers_by_distance(algorithm)",
    "require_translations": "base.require_translations(algorithm)",
    "smallest_segment_bytes": "base.shortest_segment_bytes(algorithm)",
    "sources_live": "spec.sources_live(crashed)",
    "target": "spec.common_target",
    "unchecked_receipts": "nothing: it follows from spec.port_model and spec.duplex",
}
"""Members of versions 0.2 and 0.3, and their present form."""

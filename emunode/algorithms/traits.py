"""Traits that an algorithm states of itself: its timing, its needs, and the dependence of its sends on receipts."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, cast, runtime_checkable

from emunode.model import Port, Rank, Step

Crosses = Callable[[Step, Rank, Port, Rank], bool]
"""(step, sender, port, receiver) -> True if the packet arrives."""
MessageSteps = Mapping[tuple[Rank, Rank, int], Step]
"""By origin, target and number of a message, a step."""


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
    """As `FIXED`, but a rank sends only after all packets of earlier steps: `WaitsForSteps`."""
    QUEUED = "queued"
    """The content alone: a packet keeps its path, but waits in queues, so its step depends on others."""
    LISTED = "listed"
    """The receipts that the schedule lists for it; it need not pass them on: `ListsMessages`."""
    FIRST_ARRIVAL = "first arrival"
    """The first of several copies that arrives: `PassesFirstArrivals`."""


class WaitsForSteps(Protocol):
    """The further member of an algorithm with `Dependence.WAITING`."""

    dependence: Dependence

    def awaited_steps(self, step: Step) -> range:
        """Return the steps whose packets a rank must all have before it sends in `step`."""


def awaited_steps(algorithm: object, step: Step) -> range:
    """Return the steps whose packets a rank must all have before it sends in `step`; none where it does not wait."""
    # Not `isinstance`: it compares names, which takes ten times as long, and the question comes for every hop.
    one = cast("WaitsForSteps", algorithm)
    return one.awaited_steps(step) if one.dependence is Dependence.WAITING else range(0)


@runtime_checkable
class PassesFirstArrivals(Protocol):
    """The further member of an algorithm with `Dependence.FIRST_ARRIVAL`."""

    def follow(self, segment: int, crosses: Crosses) -> Collection[Rank]:
        """Return the ranks that have a segment in the end; `crosses` decides every hop."""


class ListedMessage(NamedTuple):
    """One message of a list."""

    origin: Rank
    target: Rank
    number: int
    """Its number among all messages from the origin to the target."""
    size: int
    """Bytes."""


@runtime_checkable
class ListsMessages(Protocol):
    """The further members of an algorithm with `Dependence.LISTED`, for `Collective.MESSAGES`."""

    @property
    def listed(self) -> Sequence[ListedMessage]:
        """The messages."""

    def lost_messages(self, crosses: Crosses) -> Iterable[ListedMessage]:
        """Return the messages that do not arrive; `crosses` decides every hop."""

    def early_messages(self, sent: MessageSteps, arrived: MessageSteps) -> Sequence[Step]:
        """Return the steps of messages that were sent before a receipt that they wait for."""


def listed_messages(algorithm: object) -> Sequence[ListedMessage]:
    """Return the messages of `Collective.MESSAGES`; empty in other collectives."""
    return algorithm.listed if isinstance(algorithm, ListsMessages) else ()


class Timing(StrEnum):
    """The effect of packets that are late, or do not come, on the rules of an algorithm."""

    FIXED = "fixed"
    """A rule assumes that packets arrive in their scheduled step. Late packets are misrouted."""
    ON_ARRIVAL = "on arrival"
    """A rule forwards packets, whenever they arrive, and waits for nothing, so other packets keep their steps."""
    ADAPTIVE = "adaptive"
    """A rule waits for packets, or chooses by the arrivals: where one is missing, others leave in other steps."""

    @property
    def on_schedule(self) -> bool:
        """True if packets sent under outages keep their steps: no node waits for another."""
        return self is not Timing.ADAPTIVE


class Traits(NamedTuple):
    """Facts about the runs of an algorithm, besides its needs, its timing and its dependence."""

    ack_bytes: int = 0
    """Bytes of an acknowledgement, or 0. It carries the identity of the segment, with the receiver as its target."""
    adds_numbers: bool = False
    """Whether its rules add real numbers."""
    copies_keep_trees: bool = True
    """True if a copy stays on its tree and crosses a link at most once per step.

    False in some negative controls and schedule files.
    """
    disjoint_paths: bool = False
    """True if the copies of a message take paths without common inner nodes, so that a fault stops one copy at most."""
    folds_all_arrivals: bool = False
    """Whether a rank folds every partial result that arrives, and not only those for the rank that it sends to."""
    negative_control: bool = False
    """True if the algorithm reproduces a printed error, so that runs violate the claims of the paper."""
    reads_steps: bool = False
    """True if its rules depend on the steps of arrivals although its `timing` does not say so."""
    states_order: bool = True
    """Whether its rules leave additions to the payloads, so that the order of additions follows from them. If not, a probe
    reads the order from results, and how many partial results make a result is not known in advance."""
    survives_nodes: bool = True
    """Whether a faulty node counts as one of the tolerated faults; if not, only faulty links are tolerated."""
    trees_per_link: int = 1
    """Copies of a message that one broken link can cost a node: 2 where its directions may belong to different trees."""
    unjudged: str = ""
    """The part of a run that cannot be judged, and the reason, in words; empty if all of it is judged."""


def stated_traits(algorithm: object) -> Traits:
    """Return the traits of a class of algorithms, or of one algorithm, from its attributes of their names."""
    return Traits._make(getattr(algorithm, name, value) for name, value in Traits._field_defaults.items())


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


MOVED: Final = """
byte_relation contribution count_broken destination goes_by_arrivals keeps_results kept_trees largest_sent_bytes on_schedule
original receivers_by_distance renew require_translations smallest_segment_bytes sources_live target tolerates_delay
tree_count unchecked_receipts
"""
FORMER: Final = {
    "precomputed": "needs = frozenset({Need.TABLE})",
    "visits_all": "needs = frozenset({Need.EVERY_NODE})",
    "some_networks": "needs = frozenset({Need.SPECIAL_LINKS})",
    "cuts_vector": "needs = frozenset({Need.BLOCKS})",
    "packs": "needs = frozenset({Need.OPEN_CAPACITY})",
    "fixed_steps": "timing = Timing.FIXED",
    "keeps_time": "timing = Timing.ADAPTIVE",
} | dict.fromkeys(MOVED.split(), "no member: docs/extend/from-0.3.md says what replaces it")
"""Members of versions 0.2 and 0.3, and their present form."""

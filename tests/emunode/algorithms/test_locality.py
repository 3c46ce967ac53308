"""A rule sees its own address, its live ports and what it was sent: no other rank, no engine, no fault.

What no test can forbid is a rule that looks into the interpreter (`gc`, frames, modules). What it can look for: that nothing
a rule was given leads anywhere else; and that a rule that tries gains nothing, or is found out, because a process per rank
gives another history.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence

import pytest

from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.engine.memory import MemoryEngine
from emunode.engine.node import Node
from emunode.errors import RuleError
from emunode.faults.injector import Faults
from emunode.model import (
    ALL_RANKS,
    Collective,
    CollectiveSpec,
    HopOutcome,
    PortPacket,
    Rank,
    ScheduledSend,
    Segment,
    Step,
)
from emunode.topologies.registry import parse_topology
from tests.contract.locality import AlgorithmPerRank, live, reachable


def test_reachable_objects_are_found() -> None:
    secret = Faults(parse_topology("star:3"), 0)

    def closure() -> Faults:
        return secret

    class Slotted:
        __slots__ = ("held",)

        def __init__(self, held: object) -> None:
            self.held = held

    assert any(thing is secret for thing in reachable(Slotted({"deep": [closure]})))
    assert any(thing is secret for thing in reachable(iter([(secret,)])))
    assert not any(thing is secret for thing in reachable(Faults, gc, LocalView))


# --- rules that break the isolation --------------------------------------------------------------------------------


class Cheat(Algorithm):
    """An allgather whose rules are supplied by subclasses."""

    name = "cheat"
    collective = Collective.ALLGATHER
    citation = "none"

    def __init__(self) -> None:
        super().__init__(parse_topology("star:3"), CollectiveSpec("star:3", Collective.ALLGATHER, "cheat", 0))
        self.blackboard: list[Rank] = []

    def claims(self) -> list[Claim]:
        return []

    def rule(self, view: LocalView) -> Rule:
        raise NotImplementedError

    def told(self, rank: Rank) -> Segment:
        """Return the first segment of `rank`."""
        return rank, ALL_RANKS, 0, 0, self.payloads.segment(rank, ALL_RANKS, 0)


class Silent(Rule):
    """Sends nothing, and keeps the packets that it received."""

    __slots__ = ("heard",)

    def __init__(self) -> None:
        self.heard: list[PortPacket] = []

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        self.heard += packets
        return ()


class BlackboardRule(Silent):
    """Sends only if no other rank of the same process has: it reads and writes what is meant to be read only."""

    __slots__ = ("_algorithm", "_rank")

    def __init__(self, algorithm: Cheat, rank: Rank) -> None:
        super().__init__()
        self._algorithm = algorithm
        self._rank = rank

    def start(self) -> Iterator[ScheduledSend]:
        if not self._algorithm.blackboard:
            self._algorithm.blackboard.append(self._rank)
            yield 1, 0, self._algorithm.told(self._rank)


class Blackboard(Cheat):
    """Its ranks share a list."""

    def rule(self, view: LocalView) -> Rule:
        return BlackboardRule(self, view.rank)


def test_state_shared_between_ranks_changes_the_history() -> None:
    assert live(MemoryEngine(Blackboard())) != live(
        MemoryEngine(Blackboard(), AlgorithmPerRank(Blackboard(), Blackboard))
    )


class Trapdoor(bytes):
    """The right bytes, with a reference to their sender."""

    owner: object


class TrapdoorTuple(tuple[int, int, int, int, bytes]):  # noqa: SLOT001 - that is the trap
    """The right segment, with a reference to its sender."""

    owner: object


class SmugglerRule(Silent):
    """Sends itself along with what it sends."""

    __slots__ = ("_parcel",)

    def __init__(self, parcel: Segment) -> None:
        super().__init__()
        self._parcel = parcel

    def start(self) -> Iterator[ScheduledSend]:
        yield 1, 0, self._parcel


class PayloadSmuggler(Cheat):
    """Its payloads are more than bytes."""

    def rule(self, view: LocalView) -> Rule:
        *address, payload = self.told(view.rank)
        trapdoor = Trapdoor(payload)
        trapdoor.owner = self
        return SmugglerRule((*address, trapdoor))  # type: ignore[arg-type]


class SegmentSmuggler(Cheat):
    """Its segments are more than tuples."""

    def rule(self, view: LocalView) -> Rule:
        trapdoor = TrapdoorTuple(self.told(view.rank))
        trapdoor.owner = self
        return SmugglerRule(trapdoor)


class Mutable(Cheat):
    """Its payloads can be changed after they were sent."""

    def rule(self, view: LocalView) -> Rule:
        *address, payload = self.told(view.rank)
        return SmugglerRule((*address, bytearray(payload)))  # type: ignore[arg-type]


@pytest.mark.parametrize("smuggler", [PayloadSmuggler, SegmentSmuggler, Mutable])
def test_segment_with_other_objects_is_refused(smuggler: type[Cheat]) -> None:
    with pytest.raises(RuleError, match="is not a plain tuple of numbers and bytes"):
        live(MemoryEngine(smuggler()))


def test_local_view_is_immutable_and_minimal() -> None:
    topology = parse_topology("star:4")
    view = LocalView(topology, 5)
    with pytest.raises(AttributeError):
        view.notes = {}  # type: ignore[attr-defined]
    assert list(view.live_ports) == [0, 1, 2]
    with pytest.raises(TypeError):
        view.live_ports[0] = 9  # type: ignore[index]
    public = {name for name in dir(view) if not name.startswith("_")}
    assert public == {"live_ports", "rank", "relative"}


def test_changing_an_inbox_affects_no_other_step() -> None:
    """The list is the node's and this step's; the packets in it are tuples all the way down."""
    algorithm = Cheat()
    spoiler = Spoiler()
    node = Node(3, algorithm, spoiler)
    inbox: list[PortPacket] = [(0, (algorithm.told(1),)), (1, (algorithm.told(2),))]
    _, hops = node.step(2, inbox)
    assert len(hops) == 2
    assert node.step(3, [(2, (algorithm.told(4),))])[1] == [(2, HopOutcome.FIRST, algorithm.told(4))]


class Spoiler(Rule):
    """Throws away what it was given, after trying to change it."""

    __slots__ = ()

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        _, segments = packets[0]
        with pytest.raises(TypeError):
            segments[0] = segments[-1]  # type: ignore[index]
        assert isinstance(packets, list)
        packets.clear()
        return ()

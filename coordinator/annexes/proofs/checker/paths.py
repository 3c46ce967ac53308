"""Paths of copies, and the effects of faults on them: read from a run of the message engine, and computed with sets of
copies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import combinations, product
from typing import Any, Final

from coordinator.execution.verification import TooLargeError, UnreadableError
from coordinator.planning.plan import Plan
from coordinator.scenario.fault_sets import FaultSetSpec, FaultSetTerm
from emunode.engine.memory import MemoryEngine
from emunode.faults.byzantine import Byzantine, Equivocate, Silent
from emunode.faults.effects import Alters, Choice, Effect, Loses, Stops
from emunode.faults.kinds import KINDS, Crash, Down, Fault, Hang, LinkFault, NodeFault, stated_effects, value_names
from emunode.model import ALL_RANKS, Rank
from emunode.net.wire import ROW
from emunode.play import play

MOST_HOPS: Final = 2_000_000
MOST_STATES: Final = 200_000
"""Most sets of copies that are gone through for one message."""
EFFECTS: Final[Mapping[str, bool]] = {
    "crash": False, "hang": False, "down": False, "silent": False, "byzantine": True, "equivocate": True
}  # fmt: skip
"""The kinds whose effect follows from paths, and whether they alter copies instead of stopping them."""

_SAME: Final[Mapping[tuple[bool, Effect], str]] = {
    (True, Stops()): "down",
    (True, Loses()): "down",
    (False, Stops()): "hang",
    (False, Stops(forgets=True)): "crash",
    (False, Loses(choice=Choice.PORT)): "silent",
    (False, Alters(choice=Choice.COPY)): "equivocate",
    (False, Alters(choice=Choice.COPY, alike=True)): "byzantine",
}
"""By whether a fault is one of links, and its only effect: the kind that has it."""


def known_as(kind: str) -> str | None:
    """Return the kind in EFFECTS that has the effect that `kind` states; None without one."""
    if kind in EFFECTS or kind not in KINDS or value_names(KINDS[kind]):
        return kind if kind in EFFECTS else None
    fault = FaultSetTerm(kind).fault()
    effects = stated_effects(fault) or []
    if len(effects) != 1 or effects[0][:2] != (fault.place, fault.interval):
        return None
    return _SAME.get((isinstance(fault, LinkFault), effects[0][2]))


Place = Rank | tuple[Rank, Rank]
FaultImpact = tuple[int, int, int]
"""The effect of a fault on the copies of a message: its part, the copies it stops and those it alters, as bits."""


# --- the schedule ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RouteHop:
    step: int
    sender: Rank
    receiver: Rank


class CopyRoutes:
    """The hops of the run without faults, and the path of every copy."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rows = sorted(run_rows(plan, ()))

    @cached_property
    def arrivals(self) -> dict[tuple[Rank, Rank, int], dict[int, dict[Rank, RouteHop]]]:
        """By piece (origin, target, segment) and tree, the hop that brings it to each node."""
        found: dict[tuple[Rank, Rank, int], dict[int, dict[Rank, RouteHop]]] = {}
        for step, sender, receiver, origin, target, segment, _, tree, _, _ in self.rows:
            into = found.setdefault((origin, target, segment), {}).setdefault(tree, {})
            if receiver in into or receiver == origin:
                raise UnreadableError("a copy reaches a node twice, so its path is not determined")
            into[receiver] = RouteHop(step, sender, receiver)
        return found

    @property
    def sha256(self) -> str:
        """The digest of the hops."""
        digest = sha256()
        for row in self.rows:
            digest.update(ROW.pack(*row))
        return digest.hexdigest()

    @cached_property
    def due(self) -> dict[tuple[Rank, Rank], list[tuple[Rank, Rank, int]]]:
        """The pieces that each rank is to receive from each other."""
        found: dict[tuple[Rank, Rank], list[tuple[Rank, Rank, int]]] = {}
        for piece in sorted(self.arrivals):
            origin, target, _ = piece
            for receiver in self.plan.topology.data_ranks if target == ALL_RANKS else (target,):
                if receiver != origin:
                    found.setdefault((origin, receiver), []).append(piece)
        return found

    def paths(self, piece: tuple[Rank, Rank, int], receiver: Rank) -> list[list[RouteHop]]:
        """Return the hops of every copy of a piece to a receiver, by tree; a copy that does not reach it is left out."""
        found = []
        for tree in sorted(self.arrivals[piece]):
            into, hops = self.arrivals[piece][tree], list[RouteHop]()
            while not hops or hops[-1].sender != piece[0]:
                hop = into.get(hops[-1].sender if hops else receiver)
                if hop is None or len(hops) > len(into):
                    break
                hops.append(hop)
            else:
                found.append(hops[::-1])
        return found


def run_rows(plan: Plan, faults: Sequence[Fault]) -> list[tuple[int, ...]]:
    """Return the journal rows of a run of the message engine under these faults alone."""
    rows = list[tuple[int, ...]]()
    for turn in play(MemoryEngine(plan.algorithm), faults, limit=plan.scenario.step_limit):
        rows += ROW.iter_unpack(turn)
        if len(rows) > MOST_HOPS:
            raise UnreadableError(f"a run has more than {MOST_HOPS} hops")
    return rows


# --- faults ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Threat:
    """Faults of some kinds in the same steps, and the places where they may strike."""

    kinds: tuple[str, ...]
    first: int
    last: int
    nodes: frozenset[Rank]
    links: frozenset[tuple[Rank, Rank]]

    def touched(self, hops: Sequence[RouteHop], kind: str) -> set[Place]:
        """Return the places where a fault of this kind affects a copy on its path."""
        found: set[Place] = set()
        kind = known_as(kind) or kind
        for at, hop in enumerate(hops):
            if self.first <= hop.step <= self.last:
                if kind == "down":
                    found.add((min(hop.sender, hop.receiver), max(hop.sender, hop.receiver)))
                    continue
                if at:
                    found.add(hop.sender)
                if kind in ("crash", "hang") and at < len(hops) - 1:
                    found.add(hop.receiver)
        return found & (self.links if kind == "down" else self.nodes)


class Given:
    """The faults of the scenario: intervals when places stop or alter copies."""

    def __init__(self, plan: Plan) -> None:
        self.faulty: set[Rank] = set()
        self._silent: dict[Rank, list[tuple[int, int]]] = {}
        self._mute: dict[Rank, list[tuple[int, int]]] = {}
        self._alter: dict[Rank, list[tuple[int, int]]] = {}
        self._down: dict[tuple[Rank, Rank], list[tuple[int, int]]] = {}
        for fault in plan.faults:
            when = fault.step, fault.end
            if isinstance(fault, NodeFault):
                self.faulty.add(fault.rank)
            match fault:
                case Crash(rank=rank) | Hang(rank=rank):
                    self._silent.setdefault(rank, []).append(when)
                case Silent(rank=rank):
                    self._mute.setdefault(rank, []).append(when)
                case Byzantine(rank=rank) | Equivocate(rank=rank):
                    self._alter.setdefault(rank, []).append(when)
                case Down(sender=sender, port=port):
                    self._down.setdefault((sender, plan.topology.neighbour(sender, port)), []).append(when)
                case _:
                    raise TooLargeError("the effect of the faults of its scenario does not follow from paths")

    def effect(self, hops: Sequence[RouteHop]) -> int:
        """Return 0 if a copy arrives intact, 1 if it is stopped, 2 if it is altered."""
        altered = False
        for at, hop in enumerate(hops):
            if (
                _covered(self._silent, hop.sender, hop.step)
                or _covered(self._silent, hop.receiver, hop.step)
                or _covered(self._mute, hop.sender, hop.step)
                or _covered(self._down, (hop.sender, hop.receiver), hop.step)
            ):
                return 1
            altered |= at > 0 and _covered(self._alter, hop.sender, hop.step)
        return 2 if altered else 0


def _covered(intervals: Mapping[Any, Sequence[tuple[int, int]]], place: object, step: int) -> bool:
    return any(first <= step <= last for first, last in intervals.get(place, ()))


@dataclass(frozen=True)
class Copies:
    """The copies of one piece as bits: the copies that given faults stop or alter, and the copies that a fault at each
    place strikes.
    """

    count: int
    stopped: int
    altered: int
    strikes: Mapping[tuple[int, Place], tuple[int, int]]
    """By part and place: the copies that it stops and those it alters."""

    def lost(self, stopped: int, altered: int) -> bool:
        """Return whether the right value has no majority among the copies that arrive."""
        stopped, altered = stopped | self.stopped, altered | self.altered
        cast = self.count - stopped.bit_count()
        return 2 * (cast - (altered & ~stopped).bit_count()) <= cast

    def lost_under(self, chosen: Iterable[tuple[int, Place]]) -> bool:
        """Return whether the piece is lost under these faults."""
        stopped = altered = 0
        for strike in chosen:
            stops, alters = self.strikes.get(strike, (0, 0))
            stopped, altered = stopped | stops, altered | alters
        return self.lost(stopped, altered)

    @property
    def moves(self) -> frozenset[FaultImpact]:
        """The effects of single faults on the copies."""
        return frozenset((part, stops, alters) for (part, _), (stops, alters) in self.strikes.items())


@lru_cache(100_000)
def fewest(
    count: int, stopped: int, altered: int, moves: frozenset[FaultImpact], budget: tuple[int, ...]
) -> int | None:
    """Return the fewest faults that lose a piece, with at most `budget` of each part: a shortest way through sets of
    copies.
    """
    nothing = Copies(count, 0, 0, {})
    # A move that does no more than another one of its part is left out.
    best = [
        move for move in sorted(moves)
        if not any(
            other != move and other[0] == move[0] and move[1] | other[1] == other[1] and move[2] | other[2] == other[2]
            for other in moves
        )
    ]  # fmt: skip
    reached = frontier = {(stopped, altered, (0,) * len(budget))}
    for size in range(count + 1):
        if any(nothing.lost(stops, alters) for stops, alters, _ in frontier):
            return size
        following = set()
        for stops, alters, used in frontier:
            for part, more_stops, more_alters in best:
                if used[part] < budget[part]:
                    spent = tuple(each + (at == part) for at, each in enumerate(used))
                    # Without limits the numbers of faults by part do not matter.
                    kept = spent if min(budget) < count else used
                    following.add((stops | more_stops, alters | more_alters, kept))
        frontier = following - reached
        reached = reached | frontier
        if len(reached) > MOST_STATES:
            raise TooLargeError("the copies of a message can be affected in too many ways")
    return None


def every_set(fault_set: FaultSetSpec, threat: Threat) -> Iterator[list[tuple[int, Place]]]:
    """Yield every set of a fault set, as pairs of part and place."""
    choices = []
    for part in fault_set.parts:
        places: list[Place] = [*sorted(threat.links)] if part.on_links else [*sorted(threat.nodes)]
        choices.append(combinations(places, part.count))
    for chosen in product(*choices):
        strikes = [(at, place) for at, taken in enumerate(chosen) for place in taken]
        if len({place for _, place in strikes}) == len(strikes):
            yield strikes

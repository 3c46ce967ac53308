"""The results of votes under byzantine nodes, from the paths of the copies and without a run.

A receiver elects the value with more than half of the votes cast. Everything follows from m, the number of the x trees whose
path to the receiver contains a byzantine node:

| strategy of all byzantine nodes | votes for the right value, for one wrong value | result |
|---|---|---|
| common forgery | x - m, m | right if 2 m < x, wrong if 2 m > x, otherwise none |
| equivocation | x - m, 1 | right if 2 m < x, otherwise none (x >= 2) |
| silence | x - m, 0 | right if m < x, otherwise no vote |

Trees whose paths to each node share no inner node give m <= f for f byzantine nodes. So f <= floor((x - 1)/2) of them are
harmless under every strategy, f = x/2 can prevent an election but not turn it, and f > x/2 can turn it (Fragopoulou and Akl
1996). Where paths share nodes, one node can break several of them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from emunode.algorithms.base import Algorithm, Dependence
from emunode.algorithms.claims import Claim
from emunode.faults.byzantine import CopyPath, Treatment
from emunode.faults.effects import ALWAYS, Alters, Choice, Effect, Loses, Place, Stops
from emunode.faults.injector import Faults
from emunode.faults.kinds import Fault, NodeFault
from emunode.faults.timeline import FaultTimeline
from emunode.model import FOLDING, Collective, Rank

Elected = Literal["right", "wrong", "none"]
Strategy = Literal["common", "equivocation", "silence"]
STRATEGIES: Final[Sequence[Strategy]] = ("common", "equivocation", "silence")
MOST_PATHS = 100_000
"""Most paths that are followed for the claims of a run."""
APART_BYTES = 8
"""Shorter forgeries that are meant to differ agree by chance too often to be left out: two of eight bytes once in 2^64."""


class Ballot(NamedTuple):
    """The votes of one receiver on one segment."""

    right: int
    wrong: int
    """Votes for the common forgery."""
    apart: int = 0
    """Votes that no other copy agrees with."""

    @property
    def elected(self) -> Elected | None:
        """The result; None if no vote was cast."""
        cast = self.right + self.wrong + self.apart
        if not cast:
            return None
        if 2 * self.right > cast:
            return "right"
        return "wrong" if 2 * max(self.wrong, min(self.apart, 1)) > cast else "none"


BALLOTS: Final[Mapping[Strategy, Callable[[int, int], Ballot]]] = {
    "common": lambda broken, copies: Ballot(copies - broken, broken),
    "equivocation": lambda broken, copies: Ballot(copies - broken, 0, broken),
    "silence": lambda broken, copies: Ballot(copies - broken, 0),
}
"""The votes of a receiver to which `broken` of `copies` paths contain a byzantine node, by their common strategy."""


class Piece(NamedTuple):
    """A segment that a rank is due."""

    origin: Rank
    receiver: Rank
    segment: int


def pieces(algorithm: Algorithm) -> Iterator[Piece]:
    """All segments that ranks are due in a run without faults, where nothing is folded."""
    segments = range(algorithm.spec.messages * algorithm.segments_per_message)
    for origin in algorithm.sources:
        if algorithm.collective is Collective.UNICAST:
            receivers: Sequence[Rank] = (algorithm.destination(origin),)
        else:
            receivers = algorithm.topology.data_ranks if algorithm.target < 0 else (algorithm.target,)
        yield from (Piece(origin, rank, segment) for rank in receivers if rank != origin for segment in segments)


def broken_copies(algorithm: Algorithm, byzantine: Collection[Rank]) -> Iterator[tuple[Piece, int, int]]:
    """(piece, m, x) of every piece that a healthy rank is due from a healthy one: m of its x paths have a byzantine node.

    Nothing if the copies have no fixed paths.
    """
    for piece in pieces(algorithm):
        paths = algorithm.copy_paths(*piece)
        if paths is not None and piece.origin not in byzantine and piece.receiver not in byzantine:
            yield piece, sum(any(rank in byzantine for rank, _ in sends) for _, sends in paths), len(paths)


def ballots(algorithm: Algorithm, faults: Sequence[Fault]) -> Iterator[tuple[Piece, Ballot]]:
    """The votes on every piece at every healthy rank, if these faults last for the whole run; see `permanent`."""
    state = Faults(algorithm.topology, algorithm.spec.seed, schedule=algorithm)
    state.apply(faults)
    faulty = _faulty(faults)
    for piece in pieces(algorithm):
        paths = algorithm.copy_paths(*piece)
        if paths is None or piece.receiver in faulty:
            continue
        votes = Counter(_vote(algorithm, state, piece, path) for path in paths)
        yield piece, Ballot(votes[Treatment.PASS_ON], votes[Treatment.FORGE], votes[Treatment.FORGE_APART])


def _vote(algorithm: Algorithm, state: Faults, piece: Piece, path: CopyPath) -> Treatment:
    """The last thing that happened to a copy on its path; a copy that is lost counts as withheld."""
    tree, sends = path
    # A unicast, scatter or gather addresses one rank, a broadcast or allgather all of them.
    personal = algorithm.collective not in (Collective.BROADCAST, Collective.ALLGATHER)
    copy = (piece.origin, piece.receiver if personal else algorithm.target, tree, piece.segment)
    arrives = Treatment.PASS_ON
    for rank, port in sends:
        if state.silent(rank, 1) or state.is_dead(1, rank, port):
            return Treatment.WITHHOLD
        byzantine = state.byzantine(1, rank)
        if byzantine:
            treatment = state.treatment(byzantine, 1, rank, port, copy)
            if treatment is Treatment.WITHHOLD:
                return treatment
            # The last node that forges decides; one that passes a copy on does not restore it.
            arrives = treatment or arrives
    return arrives


def _faulty(faults: Sequence[Fault]) -> set[Rank]:
    return {fault.rank for fault in faults if isinstance(fault, NodeFault)}


def permanent(faults: Sequence[Fault], last: int | None) -> bool:
    """Report whether faults decide the fate of a copy by its path alone, in force in all steps up to the `last` one."""
    timeline = FaultTimeline(faults)
    end = ALWAYS if last is None else last + 1
    return not timeline.opaque and all(
        interval.start <= 1 and interval.end >= end and _strikes_copies(place, effect)
        for place, interval, effect in timeline
    )


def _strikes_copies(place: Place, effect: Effect) -> bool:
    """Report whether an effect stops a place, or treats copies that a rank sends."""
    treats = isinstance(effect, Alters | Loses) and effect.choice is not Choice.PACKET
    return isinstance(effect, Stops) or (treats and isinstance(place, int))


def vote_claims(algorithm: Algorithm, faults: Sequence[Fault], broken: int, altering: int) -> list[Claim]:
    """Predictions of the results of votes, where byzantine nodes alter copies.

    `broken` nodes and links lose, delay or repeat packets, `altering` ones alter them. The exact numbers are claimed where
    all faults last for the whole run and copies have fixed paths; otherwise, that no wrong value is elected, where that
    follows from the number of faults.
    """
    copies, timeline = algorithm.spec.redundancy, FaultTimeline(faults)
    votes = copies > 1 and altering and algorithm.collective not in FOLDING
    if not votes or timeline.opaque or not algorithm.sources_live(_faulty(faults)):
        return []
    forged = [effect for spells in timeline.of(Alters).values() for _, effect in spells]
    apart = [effect.choice is Choice.COPY and not effect.alike for effect in forged]
    if any(apart) and algorithm.spec.least_message_bytes // algorithm.segments_per_message < APART_BYTES:
        return []
    source = f"{algorithm.citation}: majority of the votes cast over {copies} paths"
    if _followed(algorithm, faults):
        return _exact_claims(algorithm, faults, source)
    all_apart = all(apart)
    # Two values that differ cannot both win; one altered vote wins only if it is the only one that is cast.
    if not (broken + 2 * altering <= copies if not all_apart else not broken):
        return []
    if not all_apart and not algorithm.disjoint_paths:
        return []
    reason = (
        "no two forgeries agree" if all_apart else f"{altering} forgeries do not outvote {copies - altering} copies"
    )
    return [Claim("elected_wrong", 0, "==", f"{source}: {reason}")]


def _followed(algorithm: Algorithm, faults: Sequence[Fault]) -> bool:
    """Whether the paths of all copies are known, few enough to be followed, and the same in all steps."""
    if not permanent(faults, algorithm.final_step if algorithm.keeps_time else None):
        return False
    # An algorithm that waits for answers has paths, but not every copy gets to take them.
    if algorithm.dependence is Dependence.UNSTATED:
        return False
    first = next(pieces(algorithm), None)
    if first is None or algorithm.copy_paths(*first) is None:
        return False
    # Pieces have one origin and one receiver each, and at most all pairs of ranks occur.
    ends = len(algorithm.sources) * (len(algorithm.topology.data_ranks) if algorithm.target < 0 else 1)
    each = algorithm.spec.messages * algorithm.segments_per_message * algorithm.spec.redundancy
    return ends * each <= MOST_PATHS


def _exact_claims(algorithm: Algorithm, faults: Sequence[Fault], source: str) -> list[Claim]:
    """The results of all votes on messages of healthy origins, and how many of these have only right segments."""
    results: Counter[str] = Counter()
    whole: dict[tuple[Rank, Rank, int], bool] = {}
    faulty = _faulty(faults)
    for piece, ballot in ballots(algorithm, faults):
        # No message of a faulty origin is due.
        if piece.origin not in faulty:
            if ballot.elected is not None:
                results[ballot.elected] += 1
            message = piece.origin, piece.receiver, piece.segment // algorithm.segments_per_message
            whole[message] = whole.get(message, True) and ballot.elected == "right"
    return [
        Claim("intact_deliveries", sum(whole.values()), "==", source, derived=True),
        *(
            Claim(f"elected_{value}", results[value], "==", source, derived=True)
            for value in ("right", "wrong", "none")
        ),
    ]

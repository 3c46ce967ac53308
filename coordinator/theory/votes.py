"""The results of votes under byzantine nodes: a function of the schedule and of the faults on their time axis.

A receiver elects the value with more than half of the votes cast. Everything follows from m: of the x trees, m have a
byzantine node on their path to the receiver.

| strategy of all byzantine nodes | votes for the right value, for one wrong value | result |
|---|---|---|
| common forgery | x - m, m | right if 2 m < x, wrong if 2 m > x, otherwise none |
| equivocation | x - m, 1 | right if 2 m < x, otherwise none (x >= 2) |
| silence | x - m, 0 | right if m < x, otherwise no vote |

If the paths of the trees to each node share no inner node, f byzantine nodes give m <= f. Then f <= floor((x - 1)/2) of
them are harmless under every strategy, f = x/2 can prevent an election but not turn it, and f > x/2 can turn it
(Fragopoulou and Akl 1996). Where paths share nodes, one node can break several of them.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from coordinator.theory.dependence.message_paths import DueMessage, MessagePaths, MessageSegment, Path, paths_of
from coordinator.theory.dependence.size import LOSS_HOPS, InexactError
from emunode.algorithms.base import Algorithm, Dependence, shortest_segment_bytes
from emunode.algorithms.claims import Claim
from emunode.faults.byzantine import CopyPath, LastingTreatments, Treatment
from emunode.faults.effects import ALWAYS, Alters, Choice, Effect, Loses, Place, Stops
from emunode.faults.timeline import FaultTimeline
from emunode.model import FOLDING, Rank

Elected = Literal["right", "wrong", "none"]
MOST_PATHS = 100_000
"""Most paths that are followed for the claims of a run."""
APART_BYTES = 8
"""Shorter forgeries that are meant to differ agree by chance too often to be left out.

Two forgeries of eight bytes agree once in 2^64.
"""


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
        # A value that no other copy agrees with has one vote, however many such values there are.
        return "wrong" if 2 * max(self.wrong, min(self.apart, 1)) > cast else "none"


def ballots(
    paths: MessagePaths, timeline: FaultTimeline, faulty: Collection[Rank], seed: int
) -> Iterator[tuple[DueMessage, int, Ballot]]:
    """Yield the vote on every segment of a message at every healthy rank.

    All faults must last for the whole run; see `permanent`. `faulty` are the ranks with faults of their own. `seed`
    decides what faults draw.
    """
    # A fault with several effects has several spells, but counts once.
    faults = {
        place: dict.fromkeys(spell.fault for spell in spells)
        for place, spells in timeline.spells.items()
        if isinstance(place, int)
    }
    treatments = LastingTreatments(faults, _SchedulePaths(paths), seed)
    for message, segments in paths.segments.items():
        if message.receiver not in faulty:
            for segment in segments:
                copies = paths.copies(segment, message.receiver).items()
                votes = Counter(_vote(treatments, timeline, segment, tree, path) for tree, path in copies)
                ballot = Ballot(votes[Treatment.PASS_ON], votes[Treatment.FORGE], votes[Treatment.FORGE_APART])
                yield message, segment[2], ballot


class _SchedulePaths:
    """The paths of a schedule by origin and number of the segment, as byzantine ranks know them."""

    def __init__(self, paths: MessagePaths) -> None:
        self._paths = paths

    def paths(self, origin: Rank, number: int) -> Sequence[CopyPath]:
        """Return the paths of all copies of the segments with this number to all their receivers."""
        paths = []
        for segment, receiver in self._by_source.get((origin, number), ()):
            for tree, path in self._paths.copies(segment, receiver).items():
                sends = [(hop.sender, hop.port) for hop in path]
                paths.append(CopyPath((segment[0], segment[1], tree, number), receiver, sends))
        return paths

    @cached_property
    def _by_source(self) -> Mapping[tuple[Rank, int], Sequence[tuple[MessageSegment, Rank]]]:
        """By origin and number, the segments with their receivers."""
        segments: dict[tuple[Rank, int], list[tuple[MessageSegment, Rank]]] = {}
        for message, due in self._paths.segments.items():
            for segment in due:
                segments.setdefault((segment[0], segment[2]), []).append((segment, message.receiver))
        return segments


def _vote(
    treatments: LastingTreatments, timeline: FaultTimeline, segment: MessageSegment, tree: int, path: Path
) -> Treatment:
    """Return the last treatment of a copy on its path.

    A lost copy counts as withheld.
    """
    origin, target, number = segment
    arrives = Treatment.PASS_ON
    for _, sender, port, receiver in path:
        # All faults last for the whole run, so step 1 stands for every step.
        if any(timeline.stopped(place, 1) for place in (sender, (sender, port), receiver)):
            return Treatment.WITHHOLD
        treatment = treatments.of(sender, port, (origin, target, tree, number))
        if treatment is Treatment.WITHHOLD:
            return treatment
        # The last forger decides; a node that passes a copy on does not restore it.
        arrives = treatment or arrives
    return arrives


def permanent(timeline: FaultTimeline, last: int | None) -> bool:
    """Report whether a copy's path alone decides its fate.

    It does if all faults stop places or treat copies, in every step up to `last` (None: without end).
    """
    # Intervals exclude their end. A fault that ends after the last step of the algorithm lasts for the whole run, too.
    end = ALWAYS if last is None else last + 1
    return not timeline.opaque and all(
        interval.start <= 1 and interval.end >= end and _strikes_copies(place, effect)
        for place, interval, effect in timeline
    )


def _strikes_copies(place: Place, effect: Effect) -> bool:
    """Report whether an effect stops a place, or treats copies that a rank sends."""
    treats = isinstance(effect, Alters | Loses) and effect.choice is not Choice.PACKET
    return isinstance(effect, Stops) or (treats and isinstance(place, int))


def vote_claims(
    algorithm: Algorithm, timeline: FaultTimeline, faulty: Collection[Rank], broken: int, altering: int
) -> list[Claim]:
    """Return the predictions of the results of votes, where byzantine nodes alter copies.

    `faulty` are the ranks with faults of their own. `broken` nodes and links lose, delay or repeat packets, `altering`
    nodes and links alter them. The exact numbers are claimed where all faults last for the whole run and copies have
    fixed paths. Otherwise the claim is that no wrong value is elected, where this follows from the number of faults.
    """
    copies = algorithm.spec.redundancy
    # A single copy is accepted without a vote, and partial results are folded and not voted on.
    votes = copies > 1 and altering and algorithm.collective not in FOLDING
    if not votes or timeline.opaque or not algorithm.spec.sources_live(faulty):
        return []
    forged = [effect for spells in timeline.of(Alters).values() for _, effect in spells]
    apart = [effect.choice is Choice.COPY and not effect.alike for effect in forged]
    if any(apart) and shortest_segment_bytes(algorithm) < APART_BYTES:
        return []
    source = f"{algorithm.citation}: majority of the votes cast over {copies} paths"
    # The exact numbers are stronger than the claim by the number of faults, so they are tried first.
    paths = _paths_of(algorithm, timeline)
    if paths is not None:
        return _exact_claims(algorithm, paths, timeline, faulty, source)
    all_apart = all(apart)
    if all_apart:
        # Each forgery has one vote, and wins only if no other is cast: without losses there are at least two.
        if broken:
            return []
    # A common forgery needs more than half of the votes cast. Where paths share nodes, one place may cost several votes.
    elif broken + 2 * altering > copies or not algorithm.traits.disjoint_paths:
        return []
    reason = (
        "no two forgeries agree" if all_apart else f"{altering} forgeries do not outvote {copies - altering} copies"
    )
    return [Claim("elected_wrong", 0, "==", f"{source}: {reason}")]


def _paths_of(algorithm: Algorithm, timeline: FaultTimeline) -> MessagePaths | None:
    """Return the paths of all copies.

    None if they are too many, or if they do not decide the votes.
    """
    # An algorithm that waits for answers has paths, but not every copy gets to take them.
    if algorithm.dependence not in (Dependence.FIXED, Dependence.QUEUED):
        return None
    if not permanent(timeline, algorithm.final_step if algorithm.timing.on_schedule else None):
        return None
    # Segments have one origin and one receiver each, and at most all pairs of ranks occur.
    ends = len(algorithm.sources) * (len(algorithm.topology.data_ranks) if algorithm.spec.common_target < 0 else 1)
    copies = algorithm.spec.messages * algorithm.segments_per_message * algorithm.spec.redundancy
    try:
        # As many hops as the plan counts memory for.
        return paths_of(algorithm, LOSS_HOPS) if ends * copies <= MOST_PATHS else None
    except InexactError:
        return None


def _exact_claims(
    algorithm: Algorithm, paths: MessagePaths, timeline: FaultTimeline, faulty: Collection[Rank], source: str
) -> list[Claim]:
    """Return the results of all votes on messages of healthy origins.

    Also returned is the number of messages with only right segments.
    """
    results: Counter[str] = Counter()
    whole: dict[tuple[DueMessage, int], bool] = {}
    for message, segment, ballot in ballots(paths, timeline, faulty, algorithm.spec.seed):
        # No message of a faulty origin is due.
        if message.origin not in faulty:
            # Where no copy arrives there is no election, in a run as here.
            if ballot.elected is not None:
                results[ballot.elected] += 1
            part = message, segment // algorithm.segments_per_message
            # A message is intact if the right value of every segment is elected.
            whole[part] = whole.get(part, True) and ballot.elected == "right"
    return [
        Claim("intact_deliveries", sum(whole.values()), "==", source, derived=True),
        *(
            Claim(f"elected_{value}", results[value], "==", source, derived=True)
            for value in ("right", "wrong", "none")
        ),
    ]

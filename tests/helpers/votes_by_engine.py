"""The results of votes by the engine's own code for single packets: an oracle of `coordinator.theory.votes`."""

from collections import Counter
from collections.abc import Collection, Iterator

from coordinator.theory.dependence.message_paths import DueMessage, MessagePaths, MessageSegment, Path
from coordinator.theory.votes import Ballot
from emunode.algorithms.base import Algorithm
from emunode.engine.known_paths import faults_by_steps
from emunode.faults.byzantine import Treatment
from emunode.faults.injector import Faults
from emunode.faults.kinds import in_order
from emunode.faults.timeline import FaultTimeline
from emunode.model import Rank


def ballots_by_engine(
    algorithm: Algorithm, paths: MessagePaths, timeline: FaultTimeline, faulty: Collection[Rank]
) -> Iterator[tuple[DueMessage, int, Ballot]]:
    """Yield the vote on every segment of a message at every healthy rank, if all faults last for the whole run.

    `faulty` are the ranks with faults of their own. See `permanent`.
    """
    state = faults_by_steps(algorithm)
    # A fault with several effects is applied once, in the order of a run.
    state.apply(in_order(dict.fromkeys(spell.fault for spells in timeline.spells.values() for spell in spells)))
    for message, segments in paths.segments.items():
        if message.receiver not in faulty:
            for segment in segments:
                copies = paths.copies(segment, message.receiver).items()
                votes = Counter(_vote(state, timeline, segment, tree, path) for tree, path in copies)
                ballot = Ballot(votes[Treatment.PASS_ON], votes[Treatment.FORGE], votes[Treatment.FORGE_APART])
                yield message, segment[2], ballot


def _vote(state: Faults, timeline: FaultTimeline, segment: MessageSegment, tree: int, path: Path) -> Treatment:
    """Return the last treatment of a copy on its path; a lost copy counts as withheld."""
    origin, target, number = segment
    arrives = Treatment.PASS_ON
    for _, sender, port, receiver in path:
        # All faults last for the whole run, so step 1 stands for every step.
        if any(timeline.stopped(place, 1) for place in (sender, (sender, port), receiver)):
            return Treatment.WITHHOLD
        byzantine = state.byzantine(1, sender)
        if byzantine:
            treatment = state.treatment(byzantine, 1, sender, port, (origin, target, tree, number))
            if treatment is Treatment.WITHHOLD:
                return treatment
            # The last forger decides; a node that passes a copy on does not restore it.
            arrives = treatment or arrives
    return arrives

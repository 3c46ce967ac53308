"""The time that everything takes to arrive after crashes, where nodes agree on these and run the collective again."""

from coordinator.features.base import ResolvedRun
from coordinator.features.liveness import Bound
from emunode.annexes.agreement.survivors import largest_part


def time_of_agreement(run: ResolvedRun) -> Bound | None:
    """Return the bound on an agreement on lasting crashes, with the collective that runs again."""
    agreement, detection, timeline = run.spec.agreement, run.spec.detection, run.judged.timeline
    assert agreement is not None
    assert detection is not None
    if not agreement.shrink or run.scenario.clock == "timed" or not timeline.is_lasting:
        return None
    topology, gone = run.topology, set(timeline.stops)
    ranks = {place for place in gone if isinstance(place, int)}
    if len(ranks) < len(gone) or len(ranks) >= (topology.connectivity or 1) or not run.spec.sources_live(ranks):
        return None
    # No node notices the links between two crashed nodes: a part of crashed nodes may seem to be the largest one.
    noticed = frozenset(
        min((rank, port), topology.end(rank, port))
        for rank in ranks
        for port, peer in topology.adjacent(rank)
        if peer not in ranks
    )
    again = largest_part(topology, run.spec, noticed, 0)
    if not ranks.isdisjoint(again.ranks):
        return None
    steps = 0 if again.algorithm is None else again.algorithm.final_step
    if steps is None:
        return None
    formula = "K steps of silence, the steps of the agreement, and the collective on what is left"
    return Bound(
        detection.after + agreement.steps + steps + 1, "fewer nodes fail than the connectivity", formula, derived=True
    )

"""The claims about a run, from its algorithm, its faults and the features of its nodes, and the claims that do not hold
in it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from coordinator.annexes import annex_function
from coordinator.features.base import BrokenAssumption, ResolvedRun
from coordinator.scenario.model import OnFailure
from coordinator.theory.lower_bounds import RequiredTraffic, least_seconds, lower_bounds, strongest
from coordinator.theory.outage_claims import claims_with_outages
from coordinator.theory.votes import vote_claims
from emunode.algorithms.claims import Assumption, Claim, distinct, of_uneven_blocks
from emunode.algorithms.tree_collective import original_of
from emunode.faults.timeline import FaultTimeline
from emunode.model import Collective

NO_FAULTS = FaultTimeline(())


class DroppedClaim(NamedTuple):
    """A claim that says nothing about a run, since an assumption of it fails there."""

    claim: Claim
    assumption: Assumption
    because: str

    def record(self) -> dict[str, object]:
        """Return the claim as plain values, for summary.json."""
        claim = self.claim
        return {
            "name": claim.name,
            "predicted": list(claim.predicted) if isinstance(claim.predicted, tuple) else claim.predicted,
            "relation": claim.relation,
            "source": claim.source,
            "assumes": str(self.assumption),
            "because": self.because,
        }


class KeptClaims(NamedTuple):
    """Claims that hold in a run, and claims that do not."""

    kept: list[Claim]
    dropped: list[DroppedClaim]
    broken: Sequence[BrokenAssumption] = ()
    """The assumptions that fail in the run."""


def run_claims(run: ResolvedRun) -> KeptClaims:
    """Make the claims of theory for a run, its faults included."""
    judged = run.judged
    broken = broken_assumptions(run, judged.effective_timeline)
    continues = run.scenario.on_failure is OnFailure.CONTINUE
    outcome = _sift(() if continues else annex_function("claims of an agreement")(run), broken)
    own = _claims_of_features(run, judged.effective_timeline)
    if not judged.harmful_faults:
        found = _sift(_claims_without_faults(run), broken)
        # Protocols come first where faults slow packets down: then most other claims are dropped.
        both = [*own, *found.kept] if judged.effective_faults else [*found.kept, *own]
        return KeptClaims(both + outcome.kept, found.dropped + outcome.dropped, broken)
    speaking = (feature.claims_with_faults(run) for feature in run.features)
    deliveries = next((claims for claims in speaking if claims is not None), None)
    if deliveries is None:
        deliveries = _claims_with_faults(run)
    found = _sift([*own, *deliveries] if own else deliveries, broken)
    return KeptClaims(found.kept + outcome.kept, found.dropped + outcome.dropped, broken)


def fault_free_claims(run: ResolvedRun) -> KeptClaims:
    """Make the claims of theory for a run without its faults, virtual time included.

    Of equal claims the more specific one is kept, and of all lower bounds on a metric the largest.
    """
    found = _sift(_claims_without_faults(run), broken_assumptions(run, NO_FAULTS))
    return found._replace(kept=found.kept + _claims_of_features(run, NO_FAULTS))


def dropped_claims(run: ResolvedRun, dropped: list[DroppedClaim]) -> list[DroppedClaim]:
    """Return `dropped`, the claims that `run_claims` drops, and for a run with faults also the claims without faults."""
    if not run.judged.harmful_faults:
        return dropped
    because = f"faults: {', '.join(run.scenario.fault)}" if run.scenario.fault else "faults"
    return dropped + [DroppedClaim(each, Assumption.NO_FAULTS, because) for each in fault_free_claims(run).kept]


def predictions(claims: Iterable[Claim]) -> list[dict[str, object]]:
    """Return claims without measurements as plain values."""
    return [
        {"name": claim.name, "predicted": claim.predicted, "relation": claim.relation, "source": claim.source}
        for claim in claims
    ]


def run_bounds(run: ResolvedRun) -> tuple[Claim, ...]:
    """Return bounds that no algorithm can beat in this run without faults; none for an algorithm that reproduces an
    error.
    """
    spec, algorithm = run.spec, run.algorithm
    # A repaired tree spans only the nodes that faults have left.
    if algorithm.traits.negative_control or original_of(algorithm) is not algorithm:
        return ()
    unicast = spec.collective is Collective.UNICAST
    traffic = RequiredTraffic(
        collective=spec.collective,
        source=spec.source,
        segments=spec.messages * algorithm.segments_per_message * spec.redundancy,
        size=spec.messages * spec.least_message_bytes * spec.redundancy,
        port_model=spec.port_model,
        duplex=spec.duplex,
        capacity=algorithm.link_capacity,
        blocks=len(algorithm.block_owners) if spec.collective is Collective.ALLREDUCE else 1,
        pairs=tuple((rank, algorithm.spec.destination(rank)) for rank in algorithm.sources) if unicast else (),
        cut=algorithm.segments_per_message,
        copies=spec.redundancy,
        element_bytes=spec.element_bytes,
    )
    bounds = lower_bounds(run.topology, traffic)
    return (*bounds, *least_seconds(bounds, run.scenario.startup, run.scenario.per_byte))


def broken_assumptions(run: ResolvedRun, timeline: FaultTimeline) -> list[BrokenAssumption]:
    """Return the assumptions that fail in a run under the faults of `timeline`."""
    slowed = any(fault.slows for fault in run.judged.effective_faults) and bool(timeline)
    general = [*_broken_by_events(run, slowed=slowed)]
    if slowed:
        general.append(BrokenAssumption(Assumption.ON_TIME, "faults slow packets down"))
        general += _broken_by_arrivals(run)
    return general + [broken for feature in run.features for broken in feature.broken(run, timeline)]


def _broken_by_events(run: ResolvedRun, *, slowed: bool) -> Iterator[BrokenAssumption]:
    """Yield the assumptions that fail because nodes have protocols under the timed clock."""
    if not run.goes_by_events:
        return
    yield BrokenAssumption(Assumption.STEPS_KEPT, "control segments and time-outs have times of their own")
    if slowed:
        yield BrokenAssumption(Assumption.SENT_ONCE, "faults that slow packets down may bring time-outs about")


def _broken_by_arrivals(run: ResolvedRun) -> Iterator[BrokenAssumption]:
    """Yield the assumptions that fail because nodes pass late segments on when they arrive."""
    if not run.goes_by_arrivals:
        return
    if not run.algorithm.timing.on_schedule:
        yield BrokenAssumption(Assumption.STEPS_KEPT, "segments go by arrival")
        yield BrokenAssumption(Assumption.SENT_ONCE, "segments go other ways, and come more or less often")
    elif run.algorithm.link_capacity != 1 and not run.has_one_way_in:
        yield BrokenAssumption(Assumption.STEPS_KEPT, "segments that would share a packet may cross in several")


def _claims_of_features(run: ResolvedRun, timeline: FaultTimeline) -> list[Claim]:
    return [claim for feature in run.features for claim in feature.claims(run, timeline)]


def _claims_without_faults(run: ResolvedRun) -> list[Claim]:
    """Return all claims that may hold without faults."""
    scenario, algorithm = run.scenario, run.algorithm
    claims = algorithm.claims() + algorithm.cost_claims(scenario.startup, scenario.per_byte)
    if run.spec.short_blocks:
        claims = list(of_uneven_blocks(claims, packet_limit=run.spec.packet_limit))
    claims = strongest(distinct(claims), run_bounds(run))
    added = [claim for feature in run.features for claim in feature.claims_without_faults(run, claims)]
    return [*claims, *added]


def _claims_with_faults(run: ResolvedRun) -> list[Claim]:
    """Return the claims about deliveries under harmful faults, where no feature influences deliveries."""
    around, outages, algorithm = run.claims_around_faults, run.judged.outages, run.algorithm
    if around:
        return around
    # Outages are exact: the schedule alone determines the losses.
    if outages is not None and (run.exact_steps or outages.permanent):
        return claims_with_outages(algorithm, outages)
    # Anything else is a bound by the number of faulty places, or follows from the paths of copies that are voted on.
    broken, altering = run.count_broken()
    bounds = algorithm.claims_with_faults(broken, altering, run.judged.states)
    if not run.exact_steps:
        # Votes take the paths that copies take without a clock.
        return bounds
    return bounds + vote_claims(algorithm, run.judged.harmful_timeline, run.judged.states, broken, altering)


def _sift(claims: Iterable[Claim], broken: Sequence[BrokenAssumption]) -> KeptClaims:
    """Separate claims by whether one of their assumptions fails; claims that are true of every run are no claims."""
    kept, dropped = [], []
    for claim in claims:
        if claim.is_vacuous:
            continue
        failing = next((each for each in broken if _fails(claim, each)), None)
        if failing is None:
            kept.append(claim)
        else:
            dropped.append(DroppedClaim(claim, failing.assumption, failing.because))
    return KeptClaims(kept, dropped, broken)


def _fails(claim: Claim, broken: BrokenAssumption) -> bool:
    return broken.assumption in claim.assumptions and not (broken.bounds_hold and claim.relation == ">=")

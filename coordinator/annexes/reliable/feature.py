"""Reliable links: acknowledgements, time-outs and retransmission on every link."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from coordinator.annexes.reliable.options import ReliableOptions
from coordinator.features import journals
from coordinator.features.base import BrokenAssumption, Evidence, Feature, Findings, ResolvedRun, last_data_step
from coordinator.features.timing import control_packet, longest_packet
from coordinator.scenario.durations import format_duration, parse_duration
from coordinator.scenario.model import OnFailure, Scenario, costs_of
from emunode.algorithms.base import Algorithm, byte_relation
from emunode.algorithms.claims import PROTOCOL, Assumption, Claim
from emunode.algorithms.folding import tolerates_delay
from emunode.algorithms.tree_collective import TreeCollective
from emunode.annexes import load
from emunode.errors import ScenarioError
from emunode.faults.effects import Delays, Duplicates, Loses, Stops
from emunode.faults.timeline import FaultTimeline, Spell
from emunode.model import FOLDING, Collective, CollectiveSpec, Duplex, PortModel, ReliableLinks, Step
from emunode.timed.cost_model import NANO
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    import polars as pl

NEGLIGIBLE = 1e-9
"""Full delivery is claimed if it fails with at most this probability."""
SOURCE = "reliable links"
IF_PUNCTUAL = frozenset({Assumption.SENT_ONCE, Assumption.NOTHING_OVERDUE, Assumption.NO_WRONG_SUSPICION})
"""The assumptions of claims that nothing is sent again."""
DELIVERED = frozenset({Assumption.EVERY_ATTEMPT})
"""The assumptions of claims that follow from the number of attempts."""


class ReliableFeature(Feature):
    """Acknowledgements on every link; a segment is sent again until one comes, or the attempts run out."""

    name = "reliable"
    metrics = frozenset(PROTOCOL)
    unpredictable = "reliable links send again what was lost"

    def is_active(self, spec: CollectiveSpec) -> bool:
        return spec.reliable is not None

    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        return spec._replace(reliable=reliable_links(scenario, topology, spec))

    def require(self, scenario: Scenario, algorithm: Algorithm) -> None:
        if not self.is_active(algorithm.spec):
            return
        if not tolerates_delay(algorithm):
            reason = f"{algorithm.name} counts on the step of an arrival, and a packet that is sent again is late"
            raise ScenarioError("reliable", None, reason)
        if algorithm.traits.ack_bytes:
            raise ScenarioError("reliable", None, f"{algorithm.name} sends acknowledgements of its own")

    def claims_without_faults(self, run: ResolvedRun, claims: Sequence[Claim]) -> Iterator[Claim]:
        if run.goes_by_events:
            yield from _without_time_outs(claims)
            yield from _pipe_claims(run)
            return
        links, last = links_of(run), last_data_step(run.spec, run.algorithm)
        if last is not None:
            formula = "2 (m - 1) + L" if links.window == 1 else "m - 1 + L"
            source = f"{SOURCE}: {formula} for m segments over L links"
            yield Claim("steps", last, "==", source, derived=True, assumes=IF_PUNCTUAL - {Assumption.SENT_ONCE})
        yield from _without_time_outs(claims)

    def claims_with_faults(self, run: ResolvedRun) -> Iterator[Claim]:
        around = run.claims_around_faults
        if around:
            yield from around
            return
        yield from run.algorithm.claims_with_faults(*run.count_broken(), run.judged.states)
        yield from link_claims(run)

    def broken(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[BrokenAssumption]:
        all_port = run.spec.port_model is PortModel.ALL_PORT
        if run.goes_by_events:
            if timeline:
                yield BrokenAssumption(Assumption.SENT_ONCE, "faults may bring time-outs about")
            elif not _is_punctual(run):
                yield BrokenAssumption(Assumption.SENT_ONCE, "an acknowledgement may come after its time-out")
            return
        # A lower bound for every algorithm also holds for an algorithm that waits for acknowledgements. But a bound for
        # one port may follow from receipts, and these are not limited over reliable links.
        yield BrokenAssumption(Assumption.STEPS_KEPT, "segments wait for acknowledgements", bounds_hold=all_port)
        links = links_of(run)
        if links.retransmit_after < round_trip(run.spec, run.topology, links.window):
            why = "an acknowledgement comes after its time-out"
            yield BrokenAssumption(Assumption.SENT_ONCE, why, bounds_hold=all_port)

    def rows(self, run: ResolvedRun) -> "pl.Expr":
        return journals.rows.IS_CONTROL & journals.rows.IS_ANSWER

    def measure(self, run: ResolvedRun, evidence: Evidence) -> Findings:
        # By name, as below: polars takes as long to import as a plan.
        measure = load("coordinator.annexes.reliable.journal:reliable_metrics")
        return Findings(measure(links_of(run), evidence.journal))

    def violations(self, run: ResolvedRun, evidence: Evidence) -> "Iterable[pl.LazyFrame]":
        find = load("coordinator.annexes.reliable.journal:reliable_violations")
        violations: Iterable[pl.LazyFrame] = find(run, links_of(run), evidence.journal, evidence.timetable)
        return violations


def links_of(run: ResolvedRun) -> ReliableLinks:
    """Return the settings of the links of a run with reliable links."""
    assert run.spec.reliable is not None
    return run.spec.reliable


# --- settings ----------------------------------------------------------------------------------------------------------


def round_trip(spec: CollectiveSpec, topology: Topology, window: int) -> Step:
    """Return the steps from a send to the step when its acknowledgement has been read, at most, if nothing is lost.

    The acknowledgement crosses in the step after the segment. Over one port the acknowledgement waits for the
    acknowledgements of all other segments that the neighbours have sent: a window for each link.
    """
    # A packet crosses in a step; the next step reads it and sends the acknowledgement.
    return 2 if spec.port_model is PortModel.ALL_PORT else 1 + topology.degree * window


def reliable_links(scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> ReliableLinks | None:
    """Return the settings of the links of a scenario, None if the links are not reliable; ScenarioError if they
    contradict it.
    """
    options = ReliableOptions.of(scenario)
    if not options.reliable:
        return None
    if scenario.on_failure is not OnFailure.CONTINUE:
        reason = "over reliable links news have no bound on the steps they take; leave out --reliable"
        raise ScenarioError("on_failure", str(scenario.on_failure), reason)
    if spec.port_model not in (PortModel.ALL_PORT, PortModel.ONE_PORT):
        reason = "it leaves no port for acknowledgements; reliable links need all-port or one-port"
        raise ScenarioError("port_model", str(spec.port_model), reason)
    if spec.duplex is not Duplex.FULL:
        raise ScenarioError("duplex", str(spec.duplex), "acknowledgements need full-duplex links")
    after = options.retransmit_after
    if scenario.clock == "timed":
        return timed_links(scenario, topology, spec)
    if isinstance(after, str):
        raise ScenarioError("retransmit_after", after, "in lock-step a whole number of steps")
    least = round_trip(spec, topology, options.window)
    if after is not None and after < 2:
        raise ScenarioError("retransmit_after", after, "an acknowledgement takes 2 steps")
    return ReliableLinks(after or least, options.attempts, options.window, options.back_off)


def timed_links(scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> ReliableLinks:
    """Return the settings of reliable links, with times in nanoseconds; ScenarioError for a time-out that is too short."""
    costs, options = costs_of(scenario), ReliableOptions.of(scenario)
    data, answer = costs.nanoseconds(spec.message_bytes), control_packet(scenario)
    after = options.retransmit_after
    if isinstance(after, int):
        raise ScenarioError("retransmit_after", after, "under the timed clock a time such as 5ms")
    if after is not None:
        nanoseconds = round(parse_duration(after) * NANO)
        least = costs.nanoseconds(1) + answer
        # A shorter time-out is over before any acknowledgement can be there, so every segment would be sent again.
        if nanoseconds <= least:
            reason = f"the shortest segment and its acknowledgement take {format_duration(least / NANO)}"
            raise ScenarioError("retransmit_after", after, reason)
    else:
        # A whole message and its acknowledgement, each behind another packet of its kind on the same port; over one
        # port, behind the packets of all links.
        ahead = 2 if spec.port_model is PortModel.ALL_PORT else 1 + topology.degree * options.window
        nanoseconds = ahead * (data + answer)
    return ReliableLinks(max(1, nanoseconds), options.attempts, options.window, options.back_off)


# --- claims ------------------------------------------------------------------------------------------------------------


def _without_time_outs(claims: Iterable[Claim]) -> Iterator[Claim]:
    """Yield the claims that hold beside `claims` if every acknowledgement comes before its time-out, under either
    clock.
    """
    why = f"{SOURCE}: no time-out before the acknowledgement"
    yield Claim("retransmissions", 0, "==", why, assumes=IF_PUNCTUAL)
    yield Claim("discarded_copies", 0, "==", f"{SOURCE}: every copy is the first", assumes=IF_PUNCTUAL)
    source = f"{SOURCE}: one for each segment and link"
    for claim in claims:
        if claim.name == "segments" and claim.relation == "==":
            yield Claim("acknowledgements", claim.predicted, "==", source, assumes=IF_PUNCTUAL)


def _is_punctual(run: ResolvedRun) -> bool:
    """Return whether every acknowledgement comes before its time-out under the timed clock if nothing breaks.

    An acknowledgement may wait for a segment in the opposite direction, for the acknowledgements before it, and for
    signs of life.
    """
    links = links_of(run)
    data, control = longest_packet(run.scenario, run.algorithm), control_packet(run.scenario)
    if data is None or run.spec.port_model is not PortModel.ALL_PORT:
        return False
    # A sign of life may be in the way of the segment, and another one in the way of its acknowledgement.
    signs = 2 if run.spec.detection is not None else 0
    # The segment itself, one segment in the other direction that has begun before the acknowledgement, and the
    # acknowledgements of a whole window, its own included.
    return links.retransmit_after >= 2 * data + (links.window + signs) * control


def _pipe_claims(run: ResolvedRun) -> Iterator[Claim]:
    """Predict when the last segment reaches the end of the longest path of a tree, unless signs of life or requests
    delay it.
    """
    links, algorithm = links_of(run), run.algorithm
    if not isinstance(algorithm, TreeCollective) or run.spec.detection is not None or run.spec.asks:
        return
    data, answer, pipe = longest_packet(run.scenario, algorithm), control_packet(run.scenario), algorithm.pipe
    if pipe is None or data is None or byte_relation(algorithm) != "==":
        return
    # A time-out before the acknowledgement would send segments twice, and acknowledgements longer than segments would
    # set the pace in place of the segments.
    if links.retransmit_after < data + answer or (links.window > 1 and answer > data) or not algorithm.forwards_at_once:
        return
    # Stop and wait: the next segment waits for the acknowledgement of the last one. A larger window keeps the link
    # busy.
    spacing = data + answer if links.window == 1 else data
    formula = "(m - 1)(c_d + c_a) + L c_d" if links.window == 1 else "(m - 1 + L) c_d"
    seconds = ((pipe.segments - 1) * spacing + pipe.links * data) / NANO
    source = f"{SOURCE}: {formula} for m segments over L links"
    yield Claim("completion_seconds", seconds, "==", source, derived=True, assumes=frozenset({Assumption.ON_TIME}))


def link_claims(run: ResolvedRun) -> Iterator[Claim]:
    """Yield the claims that reliable links add, under faults, to the claims that count faults.

    Where time-outs are not in steps, nothing is claimed of links that come up again.
    """
    # It imports polars, whose threads keep a process from moving to a network namespace.
    from coordinator.theory.dependence.losses import losses  # noqa: PLC0415

    spec, algorithm, links = run.spec, run.algorithm, links_of(run)
    timeline, outages = run.judged.harmful_timeline, run.judged.outages
    if timeline.opaque:
        return
    most, effects = most_segments(run.topology, algorithm), timeline.effects
    if Duplicates not in effects:
        # A link that duplicates packets carries more than is sent over it.
        source = f"{SOURCE}: at most {links.attempts} attempts for each segment"
        yield Claim("segments", links.attempts * most, "<=", source, assumes=frozenset())
    # A rank that recovers has forgotten its content, and a fold depends on the step of its departure: the paths of
    # copies decide neither.
    plain = effects <= {Stops} and not timeline.recoveries and spec.collective not in FOLDING
    if outages is not None and plain and not set(outages.faulty) & set(algorithm.sources):
        found = losses(algorithm, outages if outages.permanent else outages.always())
        if found is not None:
            # An outage throughout the run stops every attempt; after an outage that ends, a later attempt may succeed.
            relation = "==" if outages.permanent else ">="
            source = f"{algorithm.citation}: what its paths carry around the outages"
            yield Claim(
                "intact_deliveries",
                found.delivered,
                relation,  # type: ignore[arg-type]
                source,
                derived=found.traced,
                assumes=DELIVERED,
            )
    # Boole's inequality: the probability that any segment fails on any link is at most their number times the worst
    # probability, whether or not the failures are independent.
    worst = max((_failure(links, spells) for spells in timeline.spells.values()), default=1.0)
    on_links = not any(isinstance(place, int) for place in timeline.spells)
    transient = on_links and effects <= {Loses, Delays, Duplicates, *(() if run.goes_by_events else (Stops,))}
    if transient and min(1.0, most * worst) <= NEGLIGIBLE:
        chance = f"fails with a probability of at most {most * worst:.1g}" if worst else "never fails"
        source = f"{SOURCE}: {most} x p^attempts {chance}"
        yield Claim("delivery_ratio", 1.0, "==", source, assumes=DELIVERED)


def most_segments(topology: Topology, algorithm: Algorithm) -> int:
    """Return an upper bound on the segments that all links carry in a run without faults."""
    stated = [claim.predicted for claim in algorithm.claims() if claim.name == "segments" and claim.relation != ">="]
    whole = [int(number) for number in stated if not isinstance(number, tuple)]
    spec = algorithm.spec
    copies = spec.messages * algorithm.segments_per_message * spec.redundancy
    # Every copy of every pair of origin and target crosses every link at most once in each direction.
    several = spec.collective in (Collective.SCATTER, Collective.ALLTOALL)
    pairs = len(algorithm.sources) * (topology.order if several else 1)
    return min([*whole, 2 * topology.link_count * copies * pairs])


def _failure(links: ReliableLinks, spells: Sequence[Spell]) -> float:
    """Return an upper bound on the probability that no attempt of a segment crosses a link with these effects."""
    crossing, attempts = 1.0, links.attempts
    for interval, effect, _ in spells:
        if isinstance(effect, Loses):
            if effect.packet is None:
                # Several faults of a link draw independently, so an attempt has to pass all of them.
                crossing *= 1 - effect.probability
            else:
                # A fault that loses the packet with one number stops one attempt.
                attempts -= 1
        elif isinstance(effect, Stops):
            if interval.is_endless:
                return 1.0
            # With the shortest time-out the most attempts fall into the outage.
            attempts -= (interval.end - 1 - interval.start) // links.retransmit_after + 1
    return 1.0 if attempts < 1 else (1 - crossing) ** attempts

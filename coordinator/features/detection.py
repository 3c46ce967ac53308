"""Detection by silence: nodes suspect neighbours that give no sign of life."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from coordinator.features import journals
from coordinator.features.base import BrokenAssumption, Evidence, Feature, Findings, ResolvedRun
from coordinator.features.timing import control_packet, longest_news, longest_packet
from coordinator.scenario.durations import format_duration
from coordinator.scenario.model import Scenario, knowledge_of
from coordinator.theory import outage_claims
from coordinator.theory.dependence.outages import Outages
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import DETECTION, Assumption, Claim
from emunode.algorithms.folding import tolerates_delay
from emunode.errors import ScenarioError
from emunode.faults.detection import StepDetection
from emunode.faults.effects import Alters, Delays, Duplicates, Effect, Loses, Place, Slows, Stops
from emunode.faults.timeline import FaultTimeline
from emunode.model import FOLDING, CollectiveSpec, Detection, PortModel
from emunode.timed.cost_model import NANO
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    import polars as pl

    from coordinator.history.timetable import Timetable


SOURCE = "detection by silence"


class DetectionFeature(Feature):
    """Signs of life on every link, and suspicions of silent neighbours."""

    name = "detection"
    metrics = frozenset(DETECTION)
    unpredictable = "nodes withhold packets from neighbours that they suspect"

    def is_active(self, spec: CollectiveSpec) -> bool:
        return spec.detection is not None

    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        return spec._replace(detection=knowledge_of(scenario)[1])

    def require(self, scenario: Scenario, algorithm: Algorithm) -> None:
        _, detects = knowledge_of(scenario)
        timed = scenario.clock == "timed"
        if scenario.keep_alive is not None and (detects is None or not timed):
            reason = "only --fault-knowledge detect:K under --clock timed has signs of life that take time"
            raise ScenarioError("keep_alive", format_duration(scenario.keep_alive), reason)
        if detects is not None and timed:
            _require_time(scenario, algorithm, detects)

    def claims(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[Claim]:
        assert run.spec.detection is not None
        if run.goes_by_events:
            return timed_claims(run.scenario, run.algorithm, timeline)
        # A fault after the last step has no effect on the collective, but the detectors notice it.
        return step_claims(run.spec.detection, run.judged.timeline) if timeline else iter(())

    def claims_with_faults(self, run: ResolvedRun) -> Iterable[Claim] | None:
        outages = run.judged.outages
        if outages is None:
            return None
        if run.goes_by_events:
            return timed_claims_with_outages(run.topology, run.algorithm, outages)
        return claims_with_outages(run.topology, run.algorithm, outages)

    def broken(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[BrokenAssumption]:
        yield BrokenAssumption(
            Assumption.EVERY_ATTEMPT, "a node withholds what it should send to a suspected neighbour"
        )
        if run.goes_by_events and not is_perfect(run.scenario, run.algorithm, timeline):
            why = "signs of life may come more than K intervals apart, and a wrong suspicion may withhold anything"
            yield BrokenAssumption(Assumption.NO_WRONG_SUSPICION, why)

    def rows(self, run: ResolvedRun) -> "pl.Expr":
        rows = journals.rows
        return rows.WITHHELD | (rows.IS_CONTROL & rows.IS_SIGN)

    def measure(self, run: ResolvedRun, evidence: Evidence) -> Findings:
        times = evidence.timetable
        if times is not None and times.events is not None:
            return Findings(journals.detection.timed_detection_metrics(run, evidence.journal, times))
        return Findings(journals.detection.detection_metrics(run, evidence.journal))

    def violations(self, run: ResolvedRun, evidence: Evidence) -> "Iterable[pl.LazyFrame]":
        return journals.detection.detection_violations(run, evidence.journal, evidence.timetable)


def suspicions(run: ResolvedRun) -> StepDetection | None:
    """Return the neighbours that nodes send nothing to, step by step, as it follows from the faults; None without any."""
    if run.spec.detection is None or not any(isinstance(each, DetectionFeature) for each in run.features):
        return None
    return StepDetection(run.topology, run.spec.seed, run.spec.detection, run.topology.ranks())


def suspicion_records(run: ResolvedRun, timetable: "Timetable") -> Mapping[str, Sequence[Mapping[str, object]]]:
    """Make suspicions.json of a run with detection under the timed clock: each change of mind of a detector, by time."""
    if run.spec.detection is None or timetable.events is None:
        return {}
    label, neighbour = run.topology.label, run.topology.neighbour
    entries = [
        {
            "seconds": each.time / NANO,
            "rank": each.rank,
            "label": label(each.rank),
            "port": each.port,
            "neighbour": label(neighbour(each.rank, each.port)),
            "suspected": each.suspected,
            "silent": each.silent,
        }
        for each in timetable.events.suspicions
    ]
    return {"suspicions": entries}


def _require_time(scenario: Scenario, algorithm: Algorithm, detects: Detection) -> None:
    """Refuse signs of life that do not fit the timed clock, or would do harm."""
    if scenario.keep_alive is None:
        reason = "under the timed clock nodes give signs of life at intervals: give --keep-alive TIME"
        raise ScenarioError("fault_knowledge", scenario.fault_knowledge, reason)
    spec, one_port = algorithm.spec, algorithm.spec.port_model is PortModel.ONE_PORT
    # Over one port, the signs of life to all neighbours leave one after the other.
    signs = control_packet(scenario) * (algorithm.topology.degree if one_port else 1)
    # Otherwise signs of life would occupy the ports all the time, and no data would cross.
    if detects.interval <= signs:
        what = "the signs of life of a node take" if one_port else "a sign of life takes"
        reason = f"{what} {format_duration(signs / NANO)}; the interval has to be longer"
        raise ScenarioError("keep_alive", format_duration(scenario.keep_alive), reason)
    if spec.port_model not in (PortModel.ALL_PORT, PortModel.ONE_PORT):
        reason = "it leaves no port for signs of life; detection under the timed clock needs all-port or one-port"
        raise ScenarioError("port_model", str(spec.port_model), reason)
    # A fold leaves in a fixed step, whether or not all contributions are there; over reliable links it waits for them.
    if not tolerates_delay(algorithm) or (spec.collective in FOLDING and spec.reliable is None):
        reason = f"{algorithm.name} counts on the step of an arrival, and signs of life make packets late"
        raise ScenarioError("fault_knowledge", scenario.fault_knowledge, reason)


# --- in lock-step ------------------------------------------------------------------------------------------------------


def step_claims(detection: Detection, timeline: FaultTimeline) -> Iterator[Claim]:
    """Yield the claims about the detectors: perfect where every live neighbour is heard in time, and then as fast as K
    steps allow.
    """
    if timeline.opaque:
        return
    effects = {type(effect) for place, _, effect in timeline if _concerns_signs(place, effect)}
    delays = [sum(effect.steps for _, effect in spells) for spells in timeline.of(Delays).values()]
    returning = any(not interval.is_endless for intervals in timeline.stops.values() for interval in intervals)
    # Signs of life come at most 1 + delay steps apart, unless something returns and the first sign is still under way.
    in_time = not delays or (1 + max(delays) <= detection.after and not returning)
    # Lost signs look like a crash, so with losses no detector is perfect.
    if effects <= {Stops, Delays} and in_time:
        yield _own("false_suspicions", 0, "perfect, K >= 1 + delay")
    # A sign of life under way, or a rank that hangs or has just recovered, puts detection off. Lost signs do not: they
    # only begin the silence earlier. With doubling, K grows with every suspicion that was wrong.
    if effects <= {Stops, Loses} and timeline.ranks_only_crash and not detection.doubling:
        yield _own("slowest_detection_steps", detection.after, "K steps", at_most=True)


def _own(name: str, value: float, formula: str, *, at_most: bool = False) -> Claim:
    """Make a claim about the detectors that holds whatever the outcome of the collective."""
    return Claim(name, value, "<=" if at_most else "==", f"{SOURCE}: {formula}", assumes=frozenset())


def _concerns_signs(place: Place, effect: Effect) -> bool:
    """Return whether an effect can keep signs of life away. Faults that count packets do not count signs, and faulty
    ranks withhold no signs.
    """
    if isinstance(effect, Loses):
        return effect.packet is None and not isinstance(place, int)
    return not isinstance(effect, Alters | Duplicates)


def claims_with_outages(topology: Topology, algorithm: Algorithm, outages: Outages) -> list[Claim]:
    """Return the claims about the deliveries: nodes withhold packets that would be lost, and more if a link works in
    one direction or again.
    """
    both = _in_both_directions(topology, outages)
    lasting = all(any(each.is_endless for each in intervals) for intervals in both.places.values())
    # All outages last and concern both directions, so suspicions come too late to change anything: the packets that are
    # withheld would be lost.
    if lasting and len(both.places) == len(outages.places):
        return outage_claims.claims_with_outages(algorithm, outages)
    # When nodes begin and cease to withhold depends on the signs of life.
    return _at_least(algorithm, both)


def timed_claims_with_outages(topology: Topology, algorithm: Algorithm, outages: Outages) -> list[Claim]:
    """Return the claims about the deliveries under the timed clock."""
    both = _in_both_directions(topology, outages)
    # Outages of the whole run in both directions leave nothing to chance. Signs of life and news make packets late, so
    # whether a packet crosses before any other outage does not follow from its step.
    if outages.permanent and len(both.places) == len(outages.places):
        return outage_claims.claims_with_outages(algorithm, outages)
    return _at_least(algorithm, both)


def _in_both_directions(topology: Topology, outages: Outages) -> Outages:
    """Return the outages with the other direction of every link that is out of service in one direction.

    A node that hears nothing over a link suspects the other end and withholds its own packets, so a link that is down
    in one direction soon carries nothing in the other direction either.
    """
    places = dict(outages.places)
    for link, intervals in outages.links.items():
        places.setdefault(topology.end(*link), intervals)
    return Outages(places, outages.faulty)


def _at_least(algorithm: Algorithm, outages: Outages) -> list[Claim]:
    """Return the claims about a run that loses no more packets than it would if the outages lasted from step 1 on."""
    return [
        replace(claim, relation=">=") if (claim.name, claim.relation) == ("intact_deliveries", "==") else claim
        for claim in outage_claims.claims_with_outages(algorithm, outages.always())
    ]


# --- under the timed clock ---------------------------------------------------------------------------------------------


def timed_claims(scenario: Scenario, algorithm: Algorithm, timeline: FaultTimeline) -> Iterator[Claim]:
    """Yield the claims about the detectors: perfect where every live neighbour is heard in time; and how fast they are."""
    detects = algorithm.spec.detection
    assert detects is not None
    if is_perfect(scenario, algorithm, timeline):
        yield _own("false_suspicions", 0, "perfect, K h >= f h + F c + (F - 1) c_h")
    heard = timeline.effects <= {Stops, Loses, Alters, Duplicates, Slows}
    if heard and _ranks_crash_or_slow(timeline) and not detects.doubling:
        # The last packet or sign of life ended no later than the crash, and K intervals of silence follow.
        seconds = detects.after * detects.interval / NANO
        yield _own("slowest_detection_seconds", seconds, "K intervals", at_most=True)


def is_perfect(scenario: Scenario, algorithm: Algorithm, timeline: FaultTimeline) -> bool:
    """Return whether no live neighbour is ever suspected: two signs of life never end more than k intervals apart.

    A sign may wait for one packet that has begun, a slow node gives its signs f times as far apart, and all of it may take
    F times as long: K h >= f h + F c + (F - 1) c_h, where c is the longest packet and c_h a sign of life.
    """
    detects, spec = algorithm.spec.detection, algorithm.spec
    assert detects is not None
    # A stop has to last: after its end the node would be live, and not heard yet.
    lasting = all(interval.is_endless for intervals in timeline.stops.values() for interval in intervals)
    hearable = lasting and _ranks_crash_or_slow(timeline) and timeline.effects <= {Stops, Alters, Duplicates, Slows}
    data, sign = longest_packet(scenario, algorithm), control_packet(scenario)
    if spec.agreement is not None and data is not None:
        # The packet may also carry news, or belong to the collective that runs again: the part of a round that is
        # neither sign nor news.
        data = max(data, spec.agreement.round - longest_news(scenario, algorithm.topology) - sign)
    if not hearable or data is None or spec.port_model is not PortModel.ALL_PORT:
        return False
    slows = [(place, effect) for place, spells in timeline.of(Slows).items() for _, effect in spells]
    node = prod((effect.factor for place, effect in slows if isinstance(place, int)), start=1.0)
    factor = node * prod((effect.factor for place, effect in slows if not isinstance(place, int)), start=1.0)
    # Jitter prolongs a packet by at most this share of its duration. Effects of several faults multiply.
    factor *= prod((1 + effect.spread for _, effect in slows), start=1.0)
    wait = node * detects.interval + factor * max(data, sign) + (factor - 1) * sign
    return detects.after * detects.interval >= wait


def _ranks_crash_or_slow(timeline: FaultTimeline) -> bool:
    """Return whether ranks only crash or slow down: then a rank that has not crashed keeps its packets and its clock."""
    at_ranks = {type(effect) for place, _, effect in timeline if isinstance(place, int)}
    return not timeline.opaque and timeline.ranks_only_crash and at_ranks <= {Stops, Slows}

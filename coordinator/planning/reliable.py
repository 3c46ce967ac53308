"""Reliable links in a plan: their settings, what they are refused for, and the claims of runs over them."""

from collections.abc import Iterable, Iterator, Sequence

from coordinator.dependence.losses import losses
from coordinator.dependence.outages import Outages
from coordinator.planning import timed_protocols
from coordinator.scenario.model import Scenario
from emunode.algorithms.base import Algorithm, LocalView
from emunode.algorithms.claims import DELIVERY, STRUCTURE, Claim
from emunode.algorithms.tree_collective import ForwardRule, TreeCollective
from emunode.errors import ScenarioError
from emunode.faults.effects import Delays, Duplicates, Loses, Stops
from emunode.faults.timeline import FaultTimeline, Spell
from emunode.model import FOLDING, Collective, CollectiveSpec, Duplex, PortModel, ReliableLinks, Step
from emunode.topologies.base import Topology

UNTIMED = frozenset((*DELIVERY, *STRUCTURE, "segments", "bytes", "max_link_segments", "links_used")) - {
    "same_type_per_step"
}
"""Metrics of a run without faults that do not depend on the steps in which segments leave."""
NEGLIGIBLE = 1e-9
"""Full delivery is claimed if it fails with at most this probability."""
SOURCE = timed_protocols.RELIABLE


def round_trip(spec: CollectiveSpec, topology: Topology, window: int) -> Step:
    """The steps from a send to the step in which its acknowledgement has been read, at most, if nothing is lost.

    The acknowledgement crosses in the step after the segment. Over one port it waits for those of all other segments that
    the neighbours have sent: a window for each link.
    """
    return 2 if spec.port_model is PortModel.ALL_PORT else 1 + topology.degree * window


def reliable_links(scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> ReliableLinks | None:
    """The settings of the links of a scenario, None if they are not reliable; ScenarioError if they contradict it."""
    if not scenario.reliable:
        for name in ("retransmit_after", "attempts", "window", "back_off"):
            if getattr(scenario, name) != type(scenario).model_fields[name].default:
                raise ScenarioError(name, getattr(scenario, name), "only reliable links have it; add --reliable")
        return None
    if spec.port_model not in (PortModel.ALL_PORT, PortModel.ONE_PORT):
        reason = "it leaves no port for acknowledgements; reliable links need all-port or one-port"
        raise ScenarioError("port_model", str(spec.port_model), reason)
    if spec.duplex is not Duplex.FULL:
        raise ScenarioError("duplex", str(spec.duplex), "acknowledgements need full-duplex links")
    after = scenario.retransmit_after
    if scenario.clock == "timed":
        return timed_protocols.reliable_links(scenario, topology, spec)
    if isinstance(after, str):
        raise ScenarioError("retransmit_after", after, "in lock-step a whole number of steps")
    least = round_trip(spec, topology, scenario.window)
    if after is not None and after < 2:
        raise ScenarioError("retransmit_after", after, "an acknowledgement takes 2 steps")
    return ReliableLinks(after or least, scenario.attempts, scenario.window, scenario.back_off)


def require_tolerance(algorithm: Algorithm) -> None:
    """Refuse reliable links for an algorithm that cannot use what arrives late, or acknowledges by itself."""
    if algorithm.spec.reliable is None:
        return
    if not algorithm.tolerates_delay:
        reason = f"{algorithm.name} counts on the step in which a packet arrives, and one that is sent again is late"
        raise ScenarioError("reliable", None, reason)
    if algorithm.ack_bytes:
        raise ScenarioError("reliable", None, f"{algorithm.name} sends acknowledgements of its own")


def last_data_step(spec: CollectiveSpec, algorithm: Algorithm) -> Step | None:
    """The last step in which data arrives if nothing is lost, or None where acknowledgements decide about it.

    Down one tree each link is a pipe: segment k follows segment k - window after a round trip of two steps, so m segments
    over L links take (m - 1)(1 + 1) + L steps for stop and wait, and m - 1 + L for larger windows.
    """
    one_tree = isinstance(algorithm, TreeCollective) and algorithm.trees.count == 1
    if spec.reliable is None or not one_tree or spec.collective is not Collective.BROADCAST:
        return None
    assert isinstance(algorithm, TreeCollective)
    if type(algorithm.rule(LocalView(algorithm.topology, spec.source))) is not ForwardRule:
        return None
    if spec.port_model is not PortModel.ALL_PORT or algorithm.link_capacity != 1:
        return None
    spacing = max(algorithm.period, 2 if spec.reliable.window == 1 else 1)
    return algorithm.last_offset + (algorithm.numbers - 1) * spacing


def claims_without_faults(topology: Topology, algorithm: Algorithm, claims: Iterable[Claim]) -> list[Claim]:
    """Those claims of the algorithm that hold over reliable links, and the cost of the links."""
    spec, links = algorithm.spec, algorithm.spec.reliable
    assert links is not None
    punctual = links.retransmit_after >= round_trip(spec, topology, links.window)
    # A lower bound for every algorithm also holds for one that waits for acknowledgements; but over one port it may go by
    # receipts, and those are not limited here.
    bounded = spec.port_model is PortModel.ALL_PORT
    names = UNTIMED if punctual else timed_protocols.SERVED
    kept = [claim for claim in claims if claim.name in names or (bounded and claim.relation == ">=")]
    last = last_data_step(spec, algorithm)
    if last is not None:
        formula = "2 (m - 1) + L" if links.window == 1 else "m - 1 + L"
        kept.append(Claim("steps", last, "==", f"{SOURCE}: {formula} for m segments over L links", derived=True))
    if punctual:
        kept += timed_protocols.claims_without_time_outs(kept)
    return kept


def claims_with_faults(
    topology: Topology, algorithm: Algorithm, timeline: FaultTimeline, outages: Outages | None, *, timed: bool = False
) -> Iterator[Claim]:
    """Claims that reliable links add to those that go by the number of faults; `outages` are what the faults amount to.

    `timed` says that the time-outs are not in steps, so that nothing is claimed of links that come up again.
    """
    spec, links = algorithm.spec, algorithm.spec.reliable
    assert links is not None
    if timeline.opaque:
        return
    most, effects = _most_segments(topology, algorithm), timeline.effects
    if Duplicates not in effects:
        # A link that duplicates packets carries more than is sent over it.
        source = f"{SOURCE}: at most {links.attempts} attempts for each segment"
        yield Claim("segments", links.attempts * most, "<=", source)
    plain = effects <= {Stops} and not timeline.recoveries and spec.collective not in FOLDING
    if outages is not None and plain and not set(outages.faulty) & set(algorithm.sources):
        found = losses(algorithm, outages if outages.permanent else outages.always())
        if found is not None:
            # What is out of service throughout is so for every attempt; what comes back may be reached by a later one.
            relation = "==" if outages.permanent else ">="
            source = f"{algorithm.citation}: what its paths carry around the outages"
            yield Claim("intact_deliveries", found.delivered, relation, source)  # type: ignore[arg-type]
    worst = max((_failure(links, spells) for spells in timeline.spells.values()), default=1.0)
    on_links = not any(isinstance(place, int) for place in timeline.spells)
    transient = on_links and effects <= {Loses, Delays, Duplicates, *(() if timed else (Stops,))}
    if transient and min(1.0, most * worst) <= NEGLIGIBLE:
        chance = f"fails with a probability of at most {most * worst:.1g}" if worst else "never fails"
        yield Claim("delivery_ratio", 1.0, "==", f"{SOURCE}: {most} x p^attempts {chance}")


def _most_segments(topology: Topology, algorithm: Algorithm) -> int:
    """Segments that all links carry in a run without faults, at most."""
    stated = [claim.predicted for claim in algorithm.claims() if claim.name == "segments" and claim.relation != ">="]
    whole = [int(number) for number in stated if not isinstance(number, tuple)]
    spec = algorithm.spec
    copies = spec.messages * algorithm.segments_per_message * spec.redundancy
    # Every copy of every pair of origin and target crosses every link at most once each way.
    several = spec.collective in (Collective.SCATTER, Collective.ALLTOALL)
    pairs = len(algorithm.sources) * (topology.order if several else 1)
    return min([*whole, 2 * topology.link_count * copies * pairs])


def _failure(links: ReliableLinks, spells: Sequence[Spell]) -> float:
    """The probability, at most, that no attempt of a segment crosses a link that has these effects."""
    crossing, attempts = 1.0, links.attempts
    for interval, effect, _ in spells:
        if isinstance(effect, Loses):
            if effect.packet is None:
                crossing *= 1 - effect.probability
            else:
                attempts -= 1
        elif isinstance(effect, Stops):
            if interval.is_endless:
                return 1.0
            # With the shortest time-out the most attempts fall into the outage.
            attempts -= (interval.end - 1 - interval.start) // links.retransmit_after + 1
    return 1.0 if attempts < 1 else (1 - crossing) ** attempts

"""From a scenario to a plan: topology, algorithm, faults and hosts resolved, and contradictions refused.

Nothing here asks this machine anything, except that `make_plan` by default calls `this_machine` once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from math import ceil

from coordinator.dependence.outages import Outages, outages_of
from coordinator.planning import detection, reliable, repair, timed_protocols
from coordinator.planning.agreement import agreement_claims
from coordinator.planning.collective import collective_spec
from coordinator.planning.consistency import require_consistent, require_size
from coordinator.planning.endpoint import JoinEndpoint
from coordinator.planning.link_ends import fewest_hosts
from coordinator.planning.machine import RESERVED_DESCRIPTORS, Machine, this_machine
from coordinator.planning.run_time import run_time_of
from coordinator.scenario.drivers import DRIVERS
from coordinator.scenario.fault_draws import FaultSites, WorstSet, resolve
from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.scenario.fault_syntax import parse_fault, parse_faults
from coordinator.scenario.model import Scenario, knowledge_of
from coordinator.scenario.networks import network_of
from coordinator.scenario.permutations import described, is_file
from coordinator.scenario.plugins import require_loaded
from coordinator.scenario.programs import with_digest
from coordinator.theory.lower_bounds import Traffic, lower_bounds, strongest
from coordinator.theory.outage_claims import claims_with_outages
from coordinator.theory.votes import vote_claims
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Claim, distinct, of_uneven_blocks
from emunode.algorithms.registry import make_algorithm
from emunode.algorithms.repair import RepairedBroadcast
from emunode.algorithms.routed_collective import TreeRoutedCollective
from emunode.algorithms.tree_collective import TreeCollective
from emunode.errors import RunError, ScenarioError
from emunode.faults.kinds import Fault, LinkFault, Moment, NodeFault
from emunode.faults.timeline import FaultTimeline
from emunode.model import VECTOR, Collective, CollectiveSpec, FaultKnowledge, Port, PortModel, Rank, Step
from emunode.topologies.base import Topology

NAME_BYTES = 200
"""The longest name of a run's folder. File systems allow 255 bytes; other names are derived from it."""


@dataclass(frozen=True)
class Plan:
    """A resolved scenario: what runs, and on how many hosts."""

    scenario: Scenario
    topology: Topology
    spec: CollectiveSpec
    algorithm: Algorithm
    faults: tuple[Fault, ...]
    hosts: int
    """Host processes; 0 for the memory driver."""
    endpoint: JoinEndpoint | None = None
    """Where hosts join that are started elsewhere."""
    join_seconds: float | None = None
    """How long to wait for the next host to join; None: the driver's default."""
    late_faults_count: bool = False
    """Whether a node whose fault comes after the last step counts as faulty, as in runs of earlier versions."""
    faults_may_come: bool = False
    """Whether faults may be added while the network runs (`with_faults`)."""
    searches: tuple[str, ...] = ()
    """How each set of the strategy `worst` was found, in words."""
    in_effect: tuple[Fault, ...] | None = None
    """The faults that can have an effect, where that is known from the times of a run; None: it follows from the steps."""
    translated: Mapping[Fault, Fault] = field(default_factory=dict)
    """Faults that were given by times, with the same in steps (`results.faults_in_steps`)."""
    exact_steps: bool = True
    """Whether the steps of the faults say exactly what they break; times of the timed clock may not."""

    @property
    def name(self) -> str:
        """The folder of the run below runs/. A name that is too long is cut, and ends with a digest of the whole name."""
        spec = self.spec
        name = self.scenario.name or f"{spec.topology.replace(':', '-')}-{spec.collective}-{spec.algorithm}"
        whole = name.encode()
        if len(whole) <= NAME_BYTES:
            return name
        # A character of several bytes may be cut in two: its first bytes are left out.
        return f"{whole[: NAME_BYTES - 9].decode(errors='ignore')}-{sha256(whole).hexdigest()[:8]}"

    @property
    def vector(self) -> dict[str, int]:
        """How many blocks the vector of each rank is cut into, as a value of the summary; empty in other collectives."""
        return {"blocks": self.spec.blocks} if self.spec.collective in VECTOR else {}

    @property
    def targets(self) -> dict[str, object]:
        """The keys that only the summary of a unicast has: `target`, or `permutation` as the scenario gives it."""
        if self.spec.collective is not Collective.UNICAST:
            return {}
        if self.spec.permutation:
            return {"permutation": self.scenario.permutation}
        return {"target": self.topology.label(self.spec.target)}

    @cached_property
    def timeline(self) -> FaultTimeline:
        """The effects of all faults."""
        return FaultTimeline(self.faults)

    @cached_property
    def effective_faults(self) -> tuple[Fault, ...]:
        """The faults that can have an effect: those that begin no later than the algorithm's last step."""
        if self.in_effect is not None:
            return self.in_effect
        last = self._final_step
        # Algorithms without a stated last step may still be running when any fault comes.
        if last is None or self.late_faults_count:
            return self.faults
        early = tuple(fault for fault in self.faults if fault.step <= last or isinstance(fault.step, Moment))
        # Over reliable links, and where it is repaired, an outage makes a segment late, not lost; and a source that recovers
        # may send when the others have ended.
        late = self.spec.reliable is not None or self.pulls or any(fault.revives for fault in early)
        # Outages lose packets, and faults such as altered payloads leave every packet its step.
        timing = [fault for fault in early if fault.affects_timing]
        on_time = self.algorithm.keeps_time and self._outages(timing, ()) is not None and not late
        # Late faults can be dropped only if the earlier ones do not delay the run.
        return early if on_time or not any(fault.breaks for fault in early) else self.faults

    @property
    def goes_by_events(self) -> bool:
        """Whether nodes have protocols or give signs of life under the timed clock."""
        return timed_protocols.has_timed_protocols(self.scenario, self.spec)

    @property
    def goes_by_arrivals(self) -> bool:
        """Whether nodes pass on what arrives at any time: under the timed clock, if faults may make packets late."""
        plain = self.scenario.clock == "timed" and not self.spec.has_control
        return plain and bool(self.faults) and self.algorithm.goes_by_arrivals

    @property
    def keeps_order(self) -> bool:
        """Whether the packets of a port keep their order, however late each is."""
        return not self.goes_by_arrivals or (self.spec.port_model is PortModel.ALL_PORT and self._one_way_in)

    @property
    def _one_way_in(self) -> bool:
        """Whether each rank receives by one port alone."""
        algorithm = self.algorithm
        over_trees = isinstance(algorithm, TreeCollective | TreeRoutedCollective) and algorithm.trees.count == 1
        return over_trees and self.spec.collective in (Collective.BROADCAST, Collective.SCATTER)

    @property
    def _final_step(self) -> Step | None:
        """The last step of a run without faults, or an upper bound; None if no claim states one."""
        if self.spec.reliable is None:
            return self.algorithm.final_step
        last = None if self.goes_by_events else reliable.last_data_step(self.spec, self.algorithm)
        # The acknowledgements of the last segments cross in the step after it.
        return None if last is None else last + 1

    @property
    def pulls(self) -> bool:
        """Whether nodes ask their neighbours for what is overdue."""
        return self.spec.asks

    @cached_property
    def harmful_faults(self) -> tuple[Fault, ...]:
        """The effective faults that change more than times, which alone bear on what arrives."""
        return tuple(fault for fault in self.effective_faults if not fault.slows)

    @cached_property
    def effective_timeline(self) -> FaultTimeline:
        """The effects of the effective faults."""
        return self.timeline if self.effective_faults == self.faults else FaultTimeline(self.effective_faults)

    @cached_property
    def harmful_timeline(self) -> FaultTimeline:
        """The effects of the harmful faults."""
        harmful = self.harmful_faults
        return self.effective_timeline if harmful == self.effective_faults else FaultTimeline(harmful)

    @cached_property
    def states(self) -> Mapping[Rank, str]:
        """Ranks with node faults, each with the state its last fault leaves it in; no delivery is due to such a rank."""
        return {fault.rank: fault.state for fault in self.harmful_faults if isinstance(fault, NodeFault)}

    @cached_property
    def outages(self) -> Outages | None:
        """The outages that the faults amount to, or None if one of them has another effect."""
        return self._outages(self.effective_faults, self.states)

    def _outages(self, faults: Iterable[Fault], faulty: Collection[Rank]) -> Outages | None:
        return outages_of(faults, faulty, self.topology, self.spec.seed)

    @cached_property
    def last_revival(self) -> Step:
        """The last step in which a source recovers, which may then send without receiving anything first; or 0."""
        sources = self.algorithm.sources
        return max((step for step, rank in self.timeline.recoveries if rank in sources), default=0)

    def is_over(self, step: Step, busy: bool) -> bool:
        """Whether a run has ended with `step`, after which packets are unread or sends scheduled if it is `busy`."""
        return not busy and step >= self.last_revival and step >= self.detected_by(step)

    def detected_by(self, step: Step) -> Step:
        """The step in which faults that began up to `step` can have been detected, if nodes do that; else `step`.

        Where nodes agree, also that in which a neighbour can have been heard again after faults that ended up to `step`: it
        learns then that it is given up.
        """
        if self.spec.detection is None:
            return step
        began = [fault.step for fault in self.faults if fault.step <= step]
        ended = [fault.end for fault in self.faults if fault.end <= step] if self.spec.agreement is not None else []
        # Its sign of life crosses in the step after the end, and has been read in the next one.
        return max([step, *(first + self.spec.detection.after for first in began), *(last + 2 for last in ended)])

    def claims(self) -> list[Claim]:
        """The claims of theory for this run, its faults included."""
        return [*self._claims_in_any_order(self._claims_of_collective()), *self._agreement_claims()]

    def _claims_in_any_order(self, claims: list[Claim]) -> list[Claim]:
        """The claims `claims` that hold even if packets are late, where nodes pass them on by arrival."""
        if not self.goes_by_arrivals or not any(fault.slows for fault in self.effective_faults):
            return claims
        algorithm = self.algorithm
        if not algorithm.keeps_time:
            # Segments go other ways, and come more or less often.
            return [claim for claim in claims if claim.name in timed_protocols.SERVED]
        if algorithm.link_capacity == 1 or self._one_way_in:
            return claims
        # What would have shared a packet may cross in several.
        return [claim for claim in claims if claim.name in reliable.UNTIMED]

    def _agreement_claims(self) -> list[Claim]:
        """The claims about an agreement on failures, if nodes come to one."""
        if self.spec.agreement is None:
            return []
        # A root that fails after the last step of the collective cannot repeat it.
        healthy_root = self.algorithm.sources_live(
            {fault.rank for fault in self.faults if isinstance(fault, NodeFault)}
        )
        return list(agreement_claims(self.topology, self.spec, self.timeline, healthy_root))

    def _claims_of_collective(self) -> list[Claim]:
        """The claims about the collective and its protocols."""
        faults = self.harmful_faults
        abandoned = self.spec.agreement is not None and self.spec.agreement.shrink
        if not faults or abandoned:
            # Nodes abandon the collective at the first suspicion, hence it claims nothing then.
            return self._detection_claims() if faults else self._harmless_claims()
        # Known faults in force in step 1: the algorithm builds its trees around them.
        around = self.algorithm.claims_with_known_faults(self.states) if self._faults_are_known else []
        if self.pulls or self.spec.reliable is not None:
            return self._repair_claims() if self.pulls else self._reliable_claims(around)
        if around:
            return around
        # Outages are exact: the schedule alone tells what is lost.
        outages = self.outages
        detected = self._claims_with_detection(outages)
        if detected is not None:
            return detected
        if outages is not None and (self.exact_steps or outages.permanent):
            return claims_with_outages(self.algorithm, outages)
        # Anything else is a bound by the number of faulty places, or follows from the paths of copies that are voted on.
        broken, altering = self._broken()
        bounds = self._detection_claims() + self.algorithm.claims_with_faults(broken, altering, self.states)
        return [*bounds, *self._vote_claims(broken, altering)]

    def _vote_claims(self, broken: int, altering: int) -> list[Claim]:
        """The claims about votes, which take the paths that copies take without a clock."""
        if not self.exact_steps:
            return []
        return vote_claims(self.algorithm, self.harmful_timeline, self.states, broken, altering)

    @property
    def may_suspect_wrongly(self) -> bool:
        """Whether nodes may suspect live neighbours, and withhold anything from them, under the timed clock."""
        if not self.goes_by_events:
            return False
        return not timed_protocols.is_perfect(self.scenario, self.algorithm, self.effective_timeline)

    @property
    def _faults_are_known(self) -> bool:
        """Whether faults are in force from step 1 to the end, so that ranks can know them beforehand."""
        timeline = self.harmful_timeline
        return timeline.is_lasting and all(interval.start == 1 for interval, *_ in timeline.stops.values())

    def _harmless_claims(self) -> list[Claim]:
        """The claims if no fault changes more than times; with protocols such faults may bring time-outs about."""
        claims = self.fault_free_claims()
        if not self.goes_by_events or not self.effective_faults:
            return claims
        kept = [] if self.may_suspect_wrongly else [claim for claim in claims if claim.name in timed_protocols.SERVED]
        return self._detection_claims() + kept

    def _claims_with_detection(self, outages: Outages | None) -> list[Claim] | None:
        """The claims if nodes detect faults by silence, unless they are bounds by the number of faults."""
        if self.may_suspect_wrongly:
            # A wrong suspicion may withhold anything.
            return self._detection_claims()
        if self.spec.detection is None or outages is None or (self.goes_by_events and not outages.permanent):
            return None
        claims = detection.claims_with_outages(self.topology, self.algorithm, outages)
        if self.goes_by_events:
            claims = [each for each in claims_with_outages(self.algorithm, outages) if each.name in reliable.UNTIMED]
        return self._detection_claims() + claims

    def _reliable_claims(self, around: Iterable[Claim]) -> list[Claim]:
        """The claims over reliable links; `around` are those of an algorithm that knows the faults."""
        names = timed_protocols.SERVED if self.goes_by_events else reliable.UNTIMED
        timeless = [claim for claim in around if claim.name in names]
        if timeless:
            return timeless
        bounds = self.algorithm.claims_with_faults(*self._broken(), self.states)
        tolerated = [] if self.may_suspect_wrongly else bounds
        links = reliable.claims_with_faults(
            self.topology, self.algorithm, self.harmful_timeline, self.outages, timed=self.goes_by_events
        )
        if self.spec.detection is not None:
            # An attempt that a suspicion withholds is lost as well, so only the number of attempts is certain.
            links = (claim for claim in links if claim.name == "segments")
        return [*tolerated, *self._detection_claims(), *links]

    def _repair_claims(self) -> list[Claim]:
        """The claims of a run in which nodes ask for what they miss."""
        assert isinstance(self.algorithm, TreeCollective)
        if self.may_suspect_wrongly:
            return self._detection_claims()
        # A fault at a time may begin when the first packets of its step have crossed.
        exact = not any(isinstance(fault.step, Moment) and fault.step for fault in self.translated)
        claims = list(
            repair.claims_with_faults(self.algorithm, self.harmful_faults, self.states, self.outages, exact_steps=exact)
        )
        if self.spec.reliable is not None:
            links = reliable.claims_with_faults(
                self.topology, self.algorithm, self.harmful_timeline, self.outages, timed=self.goes_by_events
            )
            # Repair adds traffic, and delivers more than the paths of the trees do.
            claims += [claim for claim in links if claim.name == "delivery_ratio" and self.spec.detection is None]
        return self._detection_claims() + claims

    def _detection_claims(self) -> list[Claim]:
        """The claims about the detectors, if nodes have any."""
        detects = self.spec.detection
        if detects is None:
            return []
        if self.goes_by_events:
            return list(timed_protocols.detection_claims(self.scenario, self.algorithm, self.effective_timeline))
        return list(detection.detection_claims(detects, self.timeline))

    def _broken(self) -> tuple[int, int]:
        """The numbers of nodes and links that lose, delay or repeat packets, and of those that alter them.

        A faulty node counts once, its links included; a link counts once for both directions.
        """
        alter = dict.fromkeys(self.states, False)
        for fault in self.harmful_faults:
            if isinstance(fault, NodeFault):
                alter[fault.rank] |= fault.alters_payload
        links: dict[tuple[Rank, Port], bool] = {}
        for fault in self.effective_faults:
            if not isinstance(fault, LinkFault) or not fault.breaks:
                # A fault that cannot have an effect does not count.
                continue
            peer = self.topology.neighbour(fault.sender, fault.port)
            ends = [rank for rank in (fault.sender, peer) if rank in alter]
            for rank in ends:
                alter[rank] |= fault.alters_payload
            # A faulty node includes its links: such a link is not counted again.
            if not ends:
                link = min((fault.sender, fault.port), self.topology.end(fault.sender, fault.port))
                links[link] = links.get(link, False) or fault.alters_payload
        both = [*alter.values(), *links.values()]
        return both.count(False), both.count(True)

    def faults_of(self, spec: str) -> list[Fault]:
        """The faults that one specification of the scenario stands for, as they are in `faults`."""
        return [self.translated.get(fault, fault) for fault in parse_fault(spec, self.topology)]

    def faults_at(self, step: Step) -> tuple[Fault, ...]:
        """Faults that take effect at the beginning of `step`."""
        return tuple(fault for fault in self.faults if fault.step == step)

    def with_faults(self, specs: Sequence[str]) -> "Plan":
        """This plan with the faults of `specs` in place of its own; the network and its algorithm stay the same.

        ScenarioError if one is invalid or contradicts another. Nodes must not know the faults beforehand.
        """
        faults = parse_faults(specs, self.topology)
        return replace(self, scenario=self.scenario.model_copy(update={"fault": tuple(specs)}), faults=faults)

    def fault_free_claims(self) -> list[Claim]:
        """The claims of theory for this run without faults, virtual time included; of equal claims the more specific one.

        Of all lower bounds on a metric, those for every algorithm included, the largest is kept.
        """
        scenario = self.scenario
        claims = self.algorithm.claims() + self.algorithm.cost_claims(scenario.startup, scenario.per_byte)
        if self.spec.short_blocks:
            claims = list(of_uneven_blocks(claims, packet_limit=self.spec.packet_limit))
        claims = strongest([*distinct(claims), *self.lower_bounds()])
        claims += repair.claims_without_faults(self.spec)
        if self.goes_by_events:
            untimed = [claim for claim in claims if claim.name in {*reliable.UNTIMED, "repair_requests"}]
            return timed_protocols.claims_without_faults(self.scenario, self.algorithm, untimed)
        if self.spec.reliable is None:
            return claims
        claims = reliable.claims_without_faults(self.topology, self.algorithm, claims)
        # Where links wait for acknowledgements a packet may be overdue, and what is asked for comes twice.
        return [
            claim for claim in claims if not self.pulls or claim.name == "intact_deliveries" or claim.relation == ">="
        ]

    def lower_bounds(self) -> tuple[Claim, ...]:
        """Bounds that no algorithm can beat in this run without faults; none for one that reproduces an error."""
        spec, algorithm = self.spec, self.algorithm
        # A repaired tree is one of what faults have left.
        if algorithm.negative_control or isinstance(algorithm, RepairedBroadcast):
            return ()
        unicast = spec.collective is Collective.UNICAST
        traffic = Traffic(
            collective=spec.collective,
            source=spec.source,
            segments=spec.messages * algorithm.segments_per_message * spec.redundancy,
            size=spec.messages * spec.least_message_bytes * spec.redundancy,
            port_model=spec.port_model,
            duplex=spec.duplex,
            capacity=algorithm.link_capacity,
            blocks=len(algorithm.block_owners) if spec.collective is Collective.ALLREDUCE else 1,
            pairs=tuple((rank, algorithm.destination(rank)) for rank in algorithm.sources) if unicast else (),
            cut=algorithm.segments_per_message,
            copies=spec.redundancy,
        )
        return lower_bounds(self.topology, traffic)

    def predictions(self) -> list[dict[str, object]]:
        """The fault-free claims as plain values."""
        return [
            {"name": claim.name, "predicted": claim.predicted, "relation": claim.relation, "source": claim.source}
            for claim in self.fault_free_claims()
        ]


def make_plan(
    scenario: Scenario,
    hosts: int | None = None,
    endpoint: JoinEndpoint | None = None,
    *,
    estimate: bool = False,
    machine: Machine | None = None,
    faults_may_come: bool = False,
) -> Plan:
    """Resolve a scenario, including faults drawn at random, for `hosts` hosts or as many as suit `machine`.

    ScenarioError for a scenario that cannot run anywhere. RunError if it cannot run on `machine` (by default this one); with
    `estimate`, `why_impossible` reports that instead. `faults_may_come`: see `Plan`.
    """
    # Before anything is looked up by name: what is not loaded is never executed from here.
    scenario = scenario.model_copy(update={"plugin": require_loaded(scenario.plugin)})
    if scenario.program is not None:
        scenario = scenario.model_copy(update={"program": with_digest(scenario.program)})
    topology = network_of(scenario)
    require_size(topology)
    spec = collective_spec(scenario, topology)
    specs, searches = resolve(
        scenario.fault,
        lambda: make_algorithm(topology, spec),
        scenario.seed,
        lambda fault_set, sites, given: _worst_set(fault_set, sites, scenario, given),
        run_time_of(scenario),
    )
    faults = parse_faults(specs, topology, timed=scenario.clock == "timed")
    if faults or faults_may_come or (spec.detection is not None and scenario.clock == "timed"):
        known = broken_from_the_start(topology, faults) if scenario.fault_knowledge is FaultKnowledge.ALL else ()
        spec = spec._replace(knowledge=knowledge_of(scenario)[0], broken=known)
    resolved: dict[str, object] = {"fault": specs}
    if spec.permutation and is_file(scenario.permutation):
        # As text, so that the stored scenario does not depend on the file.
        resolved["permutation"] = described(topology, spec.permutation)
    scenario = scenario.model_copy(update=resolved)
    algorithm = make_algorithm(topology, spec)
    reliable.require_tolerance(algorithm)
    timed_protocols.require_detection(scenario, algorithm)
    require_consistent(scenario)
    if hosts is not None and not 0 < hosts <= topology.order:
        raise ScenarioError("hosts", hosts, f"from 1 to {topology.order}, one per node")
    hosts = hosts or _host_count(scenario, topology, machine or this_machine(), estimate=estimate)
    return Plan(
        scenario, topology, spec, algorithm, faults, hosts, endpoint, faults_may_come=faults_may_come, searches=searches
    )


def _worst_set(fault_set: FaultSetSpec, sites: FaultSites, scenario: Scenario, given: Sequence[str]) -> WorstSet:
    from coordinator.planning.worst_faults import worst_set  # noqa: PLC0415  # it imports numpy

    return worst_set(fault_set, sites, scenario, given)


def _host_count(scenario: Scenario, topology: Topology, machine: Machine, *, estimate: bool) -> int:
    """The number of hosts that a scenario asks for; 0 for the memory driver.

    RunError if a host has no descriptors for even one rank, unless this is only an `estimate`.
    """
    if scenario.ranks_per_host != "auto":
        return ceil(topology.order / scenario.ranks_per_host)
    most = DRIVERS[scenario.driver].most_hosts
    if most is not None:
        return min(topology.order, most)
    ends_that_fit = machine.descriptor_limit - RESERVED_DESCRIPTORS
    if ends_that_fit < topology.degree:
        if estimate:
            return topology.order
        raise RunError(
            f"the limit of {machine.descriptor_limit} file descriptors leaves no room for one node; raise it"
        )
    return min(topology.order, max(machine.cores, fewest_hosts(topology, ends_that_fit)))


def broken_from_the_start(topology: Topology, faults: Iterable[Fault]) -> tuple[tuple[Rank, Port], ...]:
    """(rank, port) of every direction of a link that carries nothing in step 1."""
    found: set[tuple[Rank, Port]] = set()
    for place, (first, *_) in FaultTimeline(faults).stops.items():
        if first.start != 1:
            continue
        if isinstance(place, int):
            for port, peer, its_port in topology.ends(place):
                found |= {(place, port), (peer, its_port)}
        else:
            found.add(place)
    return tuple(sorted(found))

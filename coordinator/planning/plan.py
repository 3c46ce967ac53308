"""From a scenario to a plan: topology, algorithm, faults and hosts resolved, and contradictions refused.

Only `make_plan` asks this machine what it offers (`this_machine`), and only if it is given no `machine`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil

from coordinator.features.base import ResolvedRun
from coordinator.features.liveness import ended_by_option
from coordinator.features.registry import FEATURES, active_features
from coordinator.planning.collective import collective_spec
from coordinator.planning.consistency import require_consistent, require_size, require_used
from coordinator.planning.link_ends import fewest_hosts
from coordinator.planning.machine import RESERVED_DESCRIPTORS, Machine, this_machine
from coordinator.planning.placements.base import RankPlacement, place, rank_placement
from coordinator.scenario.drivers import DRIVERS, JoinEndpoint
from coordinator.scenario.fault_draws import FaultSites, WorstSet, resolve
from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario, costs_of, knowledge_of
from coordinator.scenario.networks import network_of
from coordinator.scenario.plugins import require_loaded
from coordinator.scenario.programs import ProgramOptions, with_digest
from coordinator.scenario.traffic_patterns import described, is_file
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import make_algorithm
from emunode.errors import RunError, ScenarioError
from emunode.faults.kinds import Fault
from emunode.faults.timeline import FaultTimeline
from emunode.host.placement import Placement
from emunode.model import VECTOR, Collective, FaultKnowledge, Port, Rank
from emunode.topologies.base import Topology

NAME_BYTES = 200
"""The longest name of a run's folder. File systems allow 255 bytes; other names are derived from it."""


@dataclass(frozen=True, kw_only=True)
class Plan(ResolvedRun):
    """A resolved scenario: the network, the algorithm, the faults, and the number of hosts."""

    hosts: int
    """Host processes; 0 for the memory driver."""
    endpoint: JoinEndpoint | None = None
    """Where hosts join that are started elsewhere."""
    join_seconds: float | None = None
    """How long to wait for the next host to join; None: the driver's default."""
    searches: tuple[str, ...] = ()
    """How each set of the strategy `worst` was found, in words."""
    worst_harm: int | None = None
    """How many healthy nodes miss a message, by the search for the worst set; None unless that set was drawn last."""
    placed: Placement | None = None
    """The placement of the ranks on hosts, if it is not in blocks."""

    @property
    def placement(self) -> Placement:
        """The host of each rank, in runs with hosts."""
        return self.placed or Placement(self.topology.order, self.hosts)

    @property
    def name(self) -> str:
        """The folder of the run below runs/. A name that is too long is cut, and ends with a digest of the whole name."""
        spec = self.spec
        name = self.scenario.name or f"{spec.topology.replace(':', '-')}-{spec.collective}-{spec.algorithm}"
        whole = name.encode()
        if len(whole) <= NAME_BYTES:
            return name
        # The cut may split a character of several bytes: its rest is dropped.
        return f"{whole[: NAME_BYTES - 9].decode(errors='ignore')}-{sha256(whole).hexdigest()[:8]}"

    @property
    def vector(self) -> dict[str, int]:
        """The entry `blocks` of the summary: the blocks of the vector of each rank; empty in other collectives."""
        return {"blocks": self.spec.blocks} if self.spec.collective in VECTOR else {}

    @property
    def targets(self) -> dict[str, object]:
        """The keys that only the summary of a unicast has: `target`, or `permutation` as the scenario gives it."""
        if self.spec.collective is not Collective.UNICAST:
            return {}
        if self.spec.permutation:
            return {"permutation": self.scenario.permutation}
        return {"target": self.topology.label(self.spec.target)}

    def with_faults(self, specs: Sequence[str]) -> "Plan":
        """Return this plan with the faults of `specs` in place of its own; the network and its algorithm stay the same.

        ScenarioError if one is invalid or contradicts another. Only for plans whose nodes do not know the faults beforehand:
        otherwise the algorithm would be another one.
        """
        specs = ended_by_option(self.scenario, self.topology, specs)
        faults = parse_faults(specs, self.topology, timed=self.scenario.clock == "timed")
        scenario = self.scenario.model_copy(update={"fault": tuple(specs)})
        return replace(self, scenario=scenario, faults=faults, worst_harm=None)


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
    # Before anything is looked up by name: planning never executes a plug-in that is not loaded.
    scenario = scenario.model_copy(update={"plugin": require_loaded(scenario.plugin)})
    if (program := ProgramOptions.of(scenario).program) is not None:
        scenario = scenario.model_copy(update={"program": with_digest(program)})
    topology = network_of(scenario)
    require_size(topology)
    require_used(scenario)
    spec = collective_spec(scenario, topology)
    specs, searches, worst_harm = resolve(
        scenario.fault,
        lambda: make_algorithm(topology, spec),
        scenario.seed,
        lambda fault_set, sites, given: _worst_set(fault_set, sites, scenario, given),
        run_time_of(scenario),
    )
    specs = ended_by_option(scenario, topology, specs)
    faults = parse_faults(specs, topology, timed=scenario.clock == "timed")
    knowledge, _ = knowledge_of(scenario)
    # Without faults knowledge changes nothing, except that signs of life take time under the timed clock.
    if faults or faults_may_come or (knowledge is FaultKnowledge.DETECT and scenario.clock == "timed"):
        known = broken_from_the_start(topology, faults) if knowledge is FaultKnowledge.ALL else ()
        spec = spec._replace(knowledge=knowledge, broken=known)
    resolved: dict[str, object] = {"fault": specs}
    if spec.permutation and is_file(scenario.permutation):
        # As text, so that the stored scenario does not depend on the file.
        resolved["permutation"] = described(topology, spec.permutation)
    rule = rank_placement(scenario.placement)
    if (listed := rule.resolved(topology)) is not None:
        resolved["placement"] = listed
    scenario = scenario.model_copy(update=resolved)
    algorithm = make_algorithm(topology, spec)
    for feature in FEATURES.values():
        feature.require(scenario, algorithm)
    require_consistent(scenario)
    if hosts is not None and not 0 < hosts <= topology.order:
        raise ScenarioError("hosts", hosts, f"from 1 to {topology.order}, one per node")
    hosts = hosts or _host_count(scenario, topology, machine or this_machine(), rule, estimate=estimate)
    return Plan(
        scenario=scenario,
        topology=topology,
        spec=spec,
        algorithm=algorithm,
        faults=faults,
        features=active_features(spec),
        hosts=hosts,
        endpoint=endpoint,
        faults_may_come=faults_may_come,
        searches=searches,
        worst_harm=worst_harm,
        placed=_placed(scenario.placement, topology, hosts) if hosts else None,
    )


def _placed(placement: str, topology: Topology, hosts: int) -> Placement | None:
    """Return the placement that a scenario names; None for blocks."""
    found = place(placement, topology, hosts)
    return found if found.table else None


def run_time_of(scenario: Scenario) -> Callable[[Algorithm], int] | None:
    """Return a function that gives the nanoseconds of a run of an algorithm without faults; None in lock-step."""
    if scenario.clock != "timed":
        return None

    def run_time(algorithm: Algorithm) -> int:
        from coordinator.history.prediction import completed, prediction  # noqa: PLC0415  # it imports polars

        timetable = completed(prediction(algorithm, (), costs_of(scenario), scenario.step_limit))
        return int(timetable.packets["end"].max() or 0)  # type: ignore[arg-type]

    return run_time


def _worst_set(fault_set: FaultSetSpec, sites: FaultSites, scenario: Scenario, given: Sequence[str]) -> WorstSet:
    from coordinator.planning.worst_faults import worst_set  # noqa: PLC0415  # it imports numpy

    return worst_set(fault_set, sites, scenario, given)


def _host_count(
    scenario: Scenario, topology: Topology, machine: Machine, rule: RankPlacement, *, estimate: bool
) -> int:
    """Return the number of hosts that a scenario asks for; 0 for the memory driver.

    RunError if a host has no descriptors for even one rank, unless this is only an `estimate`.
    """
    if scenario.ranks_per_host != "auto":
        return ceil(topology.order / scenario.ranks_per_host)
    if (listed := rule.host_count(topology)) is not None:
        return listed
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
    """Return (rank, port) of every direction of a link that carries nothing in step 1."""
    found: set[tuple[Rank, Port]] = set()
    for site, (first, *_) in FaultTimeline(faults).stops.items():
        if first.start != 1:
            continue
        if isinstance(site, int):
            for port, peer, its_port in topology.ends(site):
                found |= {(site, port), (peer, its_port)}
        else:
            found.add(site)
    return tuple(sorted(found))

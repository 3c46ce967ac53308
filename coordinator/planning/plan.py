"""From a scenario to a plan: everything resolved, everything the run will need, refused here if it cannot work.

What a run needs is arithmetic: a link takes a descriptor at each end, a host a listener, a control connection and a few
more. The figures per link end are what `scripts/bench` measured.
"""

import os
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path

import psutil

from coordinator.planning.endpoint import JoinEndpoint
from coordinator.planning.namespace import why_not
from coordinator.planning.outages import outages_of
from coordinator.scenario.fault_sets import resolve
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario
from emunode.algorithms.base import Algorithm, Claim
from emunode.algorithms.registry import find_algorithm, make_algorithm
from emunode.errors import RunError, ScenarioError
from emunode.faults.kinds import FOREVER, Crash, Down, Fault, Hang, LinkFault, NodeFault, Recover
from emunode.host.placement import Placement
from emunode.model import Collective, CollectiveSpec, Duplex, FaultKnowledge, Port, Rank, Step
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology

ROW_RANKS = 2**31 - 1
"""Ranks that a journal row can name."""
RESERVED_DESCRIPTORS = 64
"""Descriptors of a host or coordinator that are no links: listener, control, poller, event loop, log, libraries."""
LOCAL_PORTS = 65536 - 1024
"""Ports from which one address can dial."""
KERNEL_BYTES_PER_END = 5200
USER_BYTES_PER_END = 40
USER_BYTES_PER_RANK = 6000
BYTES_PER_PROCESS = 3_500_000
BASE_BYTES = 150_000_000
MEMORY_ENGINE_BYTES_PER_RANK = 2500
BYTES_PER_DELIVERY = 350
"""Of packets, journal and tables, at the least: measured, broadcasts of 30,000 messages in S_4 took 240 to 270 MB."""
CONTAINERS = 24
"""Containers that `auto` starts at most."""
MOST_CONTAINERS = 1000
"""Containers on one network: a bridge of Linux has 1024 ports."""


@dataclass(frozen=True)
class Plan:
    """A scenario resolved: what will run where, and what it takes."""

    scenario: Scenario
    topology: Topology
    spec: CollectiveSpec
    algorithm: Algorithm
    faults: tuple[Fault, ...]
    hosts: int
    """Host processes; 0 for the memory driver."""
    door: JoinEndpoint | None = None
    """Where hosts join that somebody else starts."""
    join_seconds: float | None = None
    """How long to wait for the next host to join; None: as long as the driver thinks right."""
    late_faults_count: bool = False
    """Whether a node whose fault comes after the last step counts as faulty, as in runs of earlier versions."""

    @property
    def name(self) -> str:
        """Folder of the run below runs/."""
        spec = self.spec
        return self.scenario.name or f"{spec.topology.replace(':', '-')}-{spec.collective}-{spec.algorithm}"

    @property
    def crashed(self) -> Mapping[Rank, Step]:
        """Ranks that crash, and when."""
        return {fault.rank: fault.step for fault in self.faults if isinstance(fault, Crash)}

    @cached_property
    def effective_faults(self) -> tuple[Fault, ...]:
        """The faults that can affect anything: those that do not begin after the last step of the algorithm."""
        last = self.algorithm.final_step
        if last is None or self.late_faults_count:
            return self.faults
        early = tuple(fault for fault in self.faults if fault.step <= last)
        on_time = self.algorithm.keeps_time and outages_of(early, ()) is not None
        return early if on_time or not any(fault.breaks for fault in early) else self.faults

    @cached_property
    def states(self) -> Mapping[Rank, str]:
        """Ranks with faults of their own, and what the last of these makes of them; such a rank is owed nothing."""
        return {fault.rank: fault.state for fault in self.effective_faults if isinstance(fault, NodeFault)}

    @cached_property
    def last_revival(self) -> Step:
        """The last step in which a source comes back that may go on by itself, or 0."""
        sources = self.algorithm.sources
        return max(
            (fault.step for fault in self.faults if isinstance(fault, Recover) and fault.rank in sources), default=0
        )

    def claims(self) -> list[Claim]:
        """What theory says of this run, its faults included."""
        faults = self.effective_faults
        if not faults:
            return self.fault_free_claims()
        around = self.algorithm.claims_with_known_faults(self.states) if all(map(is_known, faults)) else []
        if around:
            return around
        outages = outages_of(faults, self.states)
        if outages is not None:
            return self.algorithm.claims_with_outages(outages)
        broken, altering = self._broken()
        return self.algorithm.claims_with_faults(broken, altering, self.states)

    def _broken(self) -> tuple[int, int]:
        """How many nodes and links lose, delay or repeat packets, and how many alter them, for the claims of theory.

        A node counts once and stands for its links too; a link counts once for both its directions.
        """
        alter = {fault.rank: False for fault in self.effective_faults if isinstance(fault, NodeFault)}
        for fault in self.effective_faults:
            if isinstance(fault, NodeFault):
                alter[fault.rank] |= fault.alters_payload
        links: dict[tuple[Rank, Port], bool] = {}
        for fault in self.effective_faults:
            if not isinstance(fault, LinkFault) or not fault.breaks:
                continue
            peer = self.topology.neighbour(fault.sender, fault.port)
            ends = [rank for rank in (fault.sender, peer) if rank in alter]
            for rank in ends:
                alter[rank] |= fault.alters_payload
            if not ends:
                link = min((fault.sender, fault.port), (peer, self.topology.reverse_port(fault.port)))
                links[link] = links.get(link, False) or fault.alters_payload
        both = [*alter.values(), *links.values()]
        return both.count(False), both.count(True)

    def faults_at(self, step: Step) -> tuple[Fault, ...]:
        """Faults that take effect at the beginning of `step`."""
        return tuple(fault for fault in self.faults if fault.step == step)

    @property
    def deliveries(self) -> int:
        """Deliveries that are due when nothing breaks, each piece of a message on its own; the least rows of a journal."""
        order, spec = self.topology.order, self.spec
        pairs = order - 1 if len(self.algorithm.sources) == 1 else order * (order - 1)
        if spec.collective in (Collective.REDUCE, Collective.GATHER):
            pairs = order - 1
        return pairs * spec.messages * self.algorithm.pieces

    @cached_property
    def own_network(self) -> bool:
        """Whether the run moves to a network namespace of its own: as asked for, or because it would not fit in this one."""
        if self.scenario.netns != "auto" or self.scenario.driver != "local":
            return self.scenario.netns == "always"
        return crowded(self) is not None and why_not() is None

    @property
    def ends_per_host(self) -> int:
        """Link ends of the largest host."""
        return -(-self.topology.order // self.hosts) * self.topology.degree if self.hosts else 0

    @property
    def listening_ports(self) -> int:
        """One a host, one for the coordinator."""
        return self.hosts + 1 if self.hosts else 0

    @property
    def memory_bytes(self) -> int:
        """Estimate of user and kernel memory in all."""
        order, ends = self.topology.order, self.topology.order * self.topology.degree
        base = BASE_BYTES + self.deliveries * BYTES_PER_DELIVERY
        if not self.hosts:
            return base + order * MEMORY_ENGINE_BYTES_PER_RANK
        processes = self.hosts * BYTES_PER_PROCESS
        return base + processes + ends * (KERNEL_BYTES_PER_END + USER_BYTES_PER_END) + order * USER_BYTES_PER_RANK

    def needs(self) -> dict[str, object]:
        """What the run will take, for people and for `--json`."""
        return {
            "topology": self.topology.name,
            "order": self.topology.order,
            "degree": self.topology.degree,
            "diameter": self.topology.diameter,
            "driver": self.scenario.driver,
            "processes": self.hosts + 2 if self.hosts else 1,
            "hosts": self.hosts,
            "ranks_per_host": ceil(self.topology.order / self.hosts) if self.hosts else self.topology.order,
            "links": self.topology.link_count if self.hosts else 0,
            "links_across_hosts": self._crossing(),
            "descriptors_per_host": self.ends_per_host + RESERVED_DESCRIPTORS if self.hosts else RESERVED_DESCRIPTORS,
            "descriptor_limit": descriptor_limit(),
            "listening_ports": self.listening_ports,
            "local_ports_per_host": self.ends_per_host,
            "own_network_namespace": self.own_network,
            "deliveries": self.deliveries,
            "memory_bytes": self.memory_bytes,
            "memory_available_bytes": psutil.virtual_memory().available,
        }

    def _crossing(self) -> int | None:
        """Links between hosts; None where counting them would mean to walk a very large network."""
        if not self.hosts or self.topology.order * self.topology.degree > 2_000_000:
            return None if self.hosts else 0
        host = Placement(self.topology.order, self.hosts).host
        return sum(host(one) != host(other) for one, _, other, _ in self.topology.links())

    def fault_free_claims(self) -> list[Claim]:
        """What theory says of this run if nothing breaks, virtual time included; of equal claims the more special."""
        scenario = self.scenario
        claims = self.algorithm.claims() + self.algorithm.cost_claims(scenario.startup, scenario.per_byte)
        return list({(claim.name, claim.relation, claim.predicted): claim for claim in claims}.values())

    def predictions(self) -> list[dict[str, object]]:
        """The claims of the algorithm when nothing breaks."""
        return [
            {"name": claim.name, "predicted": claim.predicted, "relation": claim.relation, "source": claim.source}
            for claim in self.fault_free_claims()
        ]


def descriptor_limit() -> int:
    """Soft limit of open files of a process; children inherit it."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def tracked_connections() -> tuple[int, int] | None:
    """(in use, at most) of the packet filter of this network; None where none tracks connections."""
    try:
        folder = Path("/proc/sys/net/netfilter")
        return int((folder / "nf_conntrack_count").read_text()), int((folder / "nf_conntrack_max").read_text())
    except OSError:
        return None


def system_files() -> tuple[int, int]:
    """(in use, at most) of the file table that all processes share."""
    used, _, most = Path("/proc/sys/fs/file-nr").read_text().split()
    return int(used), int(most)


def make_plan(
    scenario: Scenario, hosts: int | None = None, door: JoinEndpoint | None = None, *, estimate: bool = False
) -> Plan:
    """Resolve a scenario, drawn faults included, for `hosts` hosts where their number is given.

    ScenarioError for what cannot be, RunError for what cannot be here; an `estimate` leaves that to `why_impossible`.
    """
    topology = parse_topology(scenario.topology)
    topology.require_order(ROW_RANKS)
    source = 0
    if scenario.source is not None:
        if scenario.collective in (Collective.ALLGATHER, Collective.ALLTOALL):
            raise ScenarioError(
                "source", scenario.source, f"in {scenario.collective} every node is a source; leave it out"
            )
        try:
            source = topology.rank(scenario.source)
        except ScenarioError as error:
            raise ScenarioError("source", scenario.source, error.allowed) from None
    spec = CollectiveSpec(
        topology=topology.name,
        collective=scenario.collective,
        algorithm=scenario.algorithm,
        source=source,
        port_model=scenario.port_model,
        duplex=scenario.duplex,
        message_bytes=scenario.message_bytes,
        messages=scenario.messages,
        segments=1 if scenario.segments == "auto" else scenario.segments,
        redundancy=scenario.redundancy,
        seed=scenario.seed,
        packet_limit=scenario.packet_limit or 0,
    )
    if scenario.segments == "auto":
        entry = find_algorithm(topology, spec)
        spec = spec._replace(segments=entry.auto_segments(topology, spec, scenario.startup, scenario.per_byte))
    specs = resolve(scenario.fault, lambda: make_algorithm(topology, spec), scenario.seed)
    faults = parse_faults(specs, topology)
    if faults:
        known = broken_from_the_start(topology, faults) if scenario.fault_knowledge is FaultKnowledge.ALL else ()
        spec = spec._replace(knowledge=scenario.fault_knowledge, broken=known)
    scenario = scenario.model_copy(update={"fault": specs})
    algorithm = make_algorithm(topology, spec)
    if scenario.clock == "timed":
        _require_timed(scenario)
    if hosts is not None and not 0 < hosts <= topology.order:
        raise ScenarioError("hosts", hosts, f"from 1 to {topology.order}, a node each")
    return Plan(scenario, topology, spec, algorithm, faults, hosts or _hosts(scenario, topology, estimate), door)


def is_known(fault: Fault) -> bool:
    """Whether a fault is one that can be known from the start and stays as it is."""
    return isinstance(fault, Crash | Hang | Down) and fault.step == 1 and fault.end == FOREVER


def broken_from_the_start(topology: Topology, faults: Iterable[Fault]) -> tuple[tuple[Rank, Port], ...]:
    """(rank, port) of every direction of a link that carries nothing in step 1."""
    found: set[tuple[Rank, Port]] = set()
    for fault in faults:
        match fault:
            case Crash(step=1, rank=rank) | Hang(step=1, rank=rank):
                found.update((peer, topology.reverse_port(port)) for port, peer in enumerate(topology.neighbours(rank)))
            case Down(step=1, sender=sender, port=port):
                found.add((sender, port))
    return tuple(sorted(found))


def _require_timed(scenario: Scenario) -> None:
    """Refuse what the timed clock cannot do."""
    if not scenario.startup and not scenario.per_byte:
        raise ScenarioError("startup", "0s", "under the timed clock a packet takes time: give --startup or --per-byte")
    if scenario.fault:
        raise ScenarioError("fault", scenario.fault[0], "under the timed clock nothing breaks; use --clock steps")
    if scenario.duplex is Duplex.HALF:
        raise ScenarioError("duplex", "half", "the timed clock has full-duplex links only; use --clock steps")


def why_impossible(plan: Plan) -> str | None:
    """Why this machine cannot run a plan, and what to do about it; None if it can."""
    try:
        require_possible(plan)
    except RunError as error:
        return str(error)
    return None


def crowded(plan: Plan) -> str | None:
    """Say that a run has more links than the packet filter of this network can still track; None if it has not."""
    tracked, links = tracked_connections(), plan.topology.link_count
    if tracked is None or tracked[0] + links <= tracked[1]:
        return None
    return (
        f"this run opens {links} connections and the packet filter here tracks at most {tracked[1]}, "
        f"{tracked[0]} of which are taken"
    )


def require_possible(plan: Plan) -> None:
    """Refuse, with the remedy, what this machine cannot run."""
    if plan.scenario.driver == "docker" and plan.hosts > MOST_CONTAINERS:
        raise RunError(
            f"{plan.hosts} containers do not fit on one network, which has room for {MOST_CONTAINERS}; "
            f"use --ranks-per-host {-(-plan.topology.order // MOST_CONTAINERS)}"
        )
    free = psutil.virtual_memory().available
    if plan.memory_bytes > free and plan.scenario.driver != "join":
        raise RunError(
            f"this run needs about {plan.memory_bytes / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free; "
            f"{_less_memory(plan)}"
        )
    if plan.scenario.driver in ("docker", "join"):
        require_coordinator_possible(plan)
    elif plan.hosts:
        require_processes_possible(plan)


def _less_memory(plan: Plan) -> str:
    if plan.deliveries * BYTES_PER_DELIVERY > plan.memory_bytes / 2:
        return f"it makes {plan.deliveries:,} deliveries or more: use fewer messages or segments, or a smaller topology"
    return "use a smaller topology" if not plan.hosts else "use a smaller topology, or --driver memory"


def require_coordinator_possible(plan: Plan) -> None:
    """Refuse more hosts than the coordinator can hold connections."""
    limit = descriptor_limit()
    if plan.hosts + RESERVED_DESCRIPTORS > limit:
        raise RunError(
            f"{plan.hosts} hosts need {plan.hosts + RESERVED_DESCRIPTORS} file descriptors; the limit is {limit}"
        )


def require_processes_possible(plan: Plan) -> None:
    """Refuse, with the remedy, what host processes of this machine cannot do."""
    require_coordinator_possible(plan)
    limit = descriptor_limit()
    if plan.ends_per_host + RESERVED_DESCRIPTORS > limit:
        fit = (limit - RESERVED_DESCRIPTORS) // plan.topology.degree
        remedy = f"use --ranks-per-host {fit} or less" if fit >= 1 else "raise the limit"
        raise RunError(
            f"a host would need {plan.ends_per_host + RESERVED_DESCRIPTORS} file descriptors and the limit is {limit}; "
            f"{remedy}, or raise it with `ulimit -n {plan.ends_per_host + RESERVED_DESCRIPTORS}`"
        )
    if plan.ends_per_host > LOCAL_PORTS:
        fit = LOCAL_PORTS // plan.topology.degree
        raise RunError(
            f"a host would dial up to {plan.ends_per_host} links and its address has {LOCAL_PORTS} ports; "
            f"use --ranks-per-host {fit} or less"
        )
    used, most = system_files()
    ends = 2 * plan.topology.link_count
    if used + ends > most:
        raise RunError(
            f"this run needs {ends} sockets and the file table of this machine has room for {most - used} more; "
            f"raise it with `sysctl fs.file-max={used + ends + 100_000}`, or use --driver memory"
        )
    if not plan.own_network and (reason := crowded(plan)):
        remedy = "use --netns auto" if plan.scenario.netns == "never" else str(why_not())
        raise RunError(f"{reason}; {remedy}")
    try:
        processes = int(Path("/proc/sys/kernel/pid_max").read_text())
    except OSError:
        return
    if plan.hosts > processes // 2:
        raise RunError(f"{plan.hosts} processes are too many here; use --ranks-per-host auto")


def _hosts(scenario: Scenario, topology: Topology, estimate: bool) -> int:
    if scenario.hang_by != "pause" and scenario.driver != "docker":
        raise ScenarioError("hang_by", scenario.hang_by, f"it is for the docker driver, not for {scenario.driver}")
    if scenario.netns == "always" and scenario.driver != "local":
        raise ScenarioError("netns", "always", f"it is for the local driver, not for {scenario.driver}; leave it out")
    if scenario.driver == "memory":
        if scenario.ranks_per_host != "auto":
            raise ScenarioError(
                "ranks_per_host", scenario.ranks_per_host, "the memory driver has no hosts; leave it out"
            )
        return 0
    if scenario.ranks_per_host != "auto":
        return ceil(topology.order / scenario.ranks_per_host)
    if scenario.driver in ("docker", "join"):
        return min(topology.order, CONTAINERS)
    room = (descriptor_limit() - RESERVED_DESCRIPTORS) // topology.degree
    if room < 1 and not estimate:
        raise RunError(f"the limit of {descriptor_limit()} file descriptors leaves no room for one node; raise it")
    cores = len(os.sched_getaffinity(0))
    return min(topology.order, max(cores, ceil(topology.order / max(room, 1))))

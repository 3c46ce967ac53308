"""Estimates of the needs of a plan: hosts, descriptors, ports and memory. Pure arithmetic on the plan.

A link takes a descriptor at each end; a host also needs a listener, a control connection and a few more.
"""

from coordinator.annexes import annex_function
from coordinator.features.timing import largest_sent_bytes
from coordinator.planning import link_ends
from coordinator.planning.link_ends import LINK_ENDS_COUNTED
from coordinator.planning.machine import RESERVED_DESCRIPTORS
from coordinator.planning.plan import Plan
from coordinator.scenario.drivers import DRIVERS
from coordinator.theory.dependence.size import HOP_BYTES, LOSS_HOPS
from emunode.algorithms.base import Dependence
from emunode.algorithms.traits import listed_messages
from emunode.model import FOLDING, Collective
from emunode.topologies.base import Topology

# The figures per link end, per rank and per process were measured by `scripts/bench`.
KERNEL_BYTES_PER_END = 5200
USER_BYTES_PER_END = 40
USER_BYTES_PER_RANK = 6000
BYTES_PER_PROCESS = 3_500_000
BASE_BYTES = 150_000_000
MEMORY_ENGINE_BYTES_PER_RANK = 2500
BYTES_PER_HELD_SEGMENT = 120
"""A segment that a rank keeps to answer requests, without its payload. Measured: 106 for 2,000 messages in Q_7."""
BYTES_PER_DELIVERY = 350
"""Packets, journal and tables, at least. Measured: broadcasts of 30,000 messages in S_4 took 240 to 270 MB."""
BYTES_PER_FURTHER_HOP = 200
"""The same for a hop that delivers nothing. Measured: 2.5 million hops of an alltoall in S_6, 0.5 million of them
deliveries, took 590 MB."""

RELAYED = (Collective.SCATTER, Collective.GATHER, Collective.ALLTOALL)
"""Collectives whose messages are for one rank each and cross as many links as that rank is away."""


def deliveries(plan: Plan) -> int:
    """Count the deliveries of segments in a run without faults; the journal has at least this many rows."""
    # Every source sends to all others, or one source does; a gather or a reduce has one target.
    order, spec = len(plan.topology.data_ranks), plan.spec
    pairs = order - 1 if len(plan.algorithm.sources) == 1 else order * (order - 1)
    match spec.collective:
        case Collective.REDUCE | Collective.GATHER:
            pairs = order - 1
        case Collective.ALLREDUCE:
            # Every block is folded and then distributed.
            pairs = 2 * len(plan.algorithm.block_owners) * (order - 1)
        case Collective.UNICAST:
            pairs = len(plan.algorithm.sources)
        case Collective.MESSAGES:
            return len(listed_messages(plan.algorithm))
    return pairs * spec.messages * plan.algorithm.segments_per_message


def hops(plan: Plan) -> int:
    """Return a lower bound on the segments that cross links in a run without faults: the rows of its journal."""
    spec, made = plan.spec, deliveries(plan)
    if spec.collective in RELAYED:
        return int(made * least_average_distance(plan.topology))
    copies = 1 if spec.collective in FOLDING else spec.redundancy
    return max(made * copies, plan.algorithm.least_hops)


def least_average_distance(topology: Topology) -> float:
    """Return a lower bound on the average distance from order and degree alone: the bound of Moore.

    The distance itself may need a search.
    """
    others, degree = topology.order - 1, topology.degree
    if degree <= 2:
        return max(1.0, topology.order**2 // 4 / others)
    total, distance, level, left = 0, 1, degree, others
    while left > 0:
        total += distance * min(level, left)
        left -= level
        distance, level = distance + 1, level * (degree - 1)
    return total / others


def table_copies(plan: Plan) -> int:
    """Count the processes that hold the tables of a precomputed schedule: the coordinator, and every host or their
    common parent.
    """
    if not plan.hosts:
        return 1
    # The local driver's hosts are forked after the tables are computed. Measured: of 44 MiB a host copies 5 at most.
    forked = DRIVERS[plan.scenario.driver].local_processes and not plan.scenario.plugin
    return 2 if forked else 1 + plan.hosts


def ranks_per_host(plan: Plan) -> int:
    """Return the ranks of the largest host; of the whole network where there are no hosts."""
    return max(plan.placement.sizes) if plan.hosts else plan.topology.order


def ends_per_host(plan: Plan) -> int:
    """Count the link ends of the largest host."""
    return link_ends.ends_per_host(plan.topology, plan.placement) if plan.hosts else 0


def descriptors_per_host(plan: Plan) -> int:
    """Estimate the file descriptors that the largest host needs."""
    return ends_per_host(plan) + RESERVED_DESCRIPTORS


def memory_bytes(plan: Plan) -> int:
    """Estimate the user and kernel memory of all processes of the run."""
    order, ends = plan.topology.order, 2 * plan.topology.link_count
    base = BASE_BYTES + journal_bytes(plan) + table_copies(plan) * plan.algorithm.table_bytes
    # In its first step every source sends a message or a block of its own, and copies of one message share their bytes.
    base += _held_bytes(plan) + _traced_bytes(plan) + len(plan.algorithm.sources) * plan.spec.message_bytes
    base += _number_bytes(plan)
    if not plan.hosts:
        return base + order * MEMORY_ENGINE_BYTES_PER_RANK
    processes = plan.hosts * BYTES_PER_PROCESS
    # Per link end: the kernel's socket buffers and the slot of the host's tables.
    return base + processes + ends * (KERNEL_BYTES_PER_END + USER_BYTES_PER_END) + order * USER_BYTES_PER_RANK


def _number_bytes(plan: Plan) -> int:
    """Estimate the memory of real numbers: partial results that are kept to judge arrivals, and all results."""
    numbers = plan.spec.numbers
    if numbers is None:
        return 0
    vectors = len(plan.topology.data_ranks) * plan.spec.messages * plan.spec.contributed_bytes
    if numbers.fixed_order:
        # Sums that wait for their other halves are kept apart.
        algorithm = plan.algorithm
        price = annex_function("price of a fixed order")(algorithm)
        parts = -(-largest_sent_bytes(algorithm) // algorithm.largest_segment_bytes)
        vectors += vectors * parts if price is None else price.on_links
    # Each process judges by the partial results of all ranks; hosts send their results to the coordinator.
    processes = 1 + plan.hosts
    # A host joins the parts of the user's numbers as they arrive.
    return len(numbers.data) * (1 + 2 * plan.hosts) + vectors * (1 + processes if plan.hosts else 2)


def journal_bytes(plan: Plan) -> int:
    """Estimate the memory of packets, journal and tables."""
    made = deliveries(plan)
    return made * BYTES_PER_DELIVERY + (hops(plan) - made) * BYTES_PER_FURTHER_HOP


def _traced_bytes(plan: Plan) -> int:
    """Estimate the memory of the schedule that decides the losses to outages, if all faults are outages."""
    traced = plan.algorithm.dependence not in (Dependence.UNSTATED, Dependence.FIRST_ARRIVAL)
    made = hops(plan) if plan.faults and traced else 0
    return made * HOP_BYTES if made <= LOSS_HOPS else 0


def _held_bytes(plan: Plan) -> int:
    """Estimate the memory of segments that ranks keep until the end to answer requests; ranks of one process share
    payloads.
    """
    if not plan.spec.asks:
        return 0
    spec, segments = plan.spec, plan.spec.messages * plan.algorithm.segments_per_message
    payloads = spec.messages * spec.message_bytes
    return plan.topology.order * (segments * BYTES_PER_HELD_SEGMENT + payloads * bool(plan.hosts)) + payloads


def links_within_hosts(plan: Plan) -> int | None:
    """Return the links between ranks of one host; None for a network that is too large to count them."""
    across = links_across_hosts(plan)
    return None if across is None else plan.topology.link_count - across if plan.hosts else 0


def links_across_hosts(plan: Plan) -> int | None:
    """Return the links between hosts; None for a network that is too large to count them."""
    if not plan.hosts:
        return 0
    if 2 * plan.topology.link_count > LINK_ENDS_COUNTED:
        return None
    host = plan.placement.host
    return sum(host(one) != host(other) for one, _, other, _ in plan.topology.links())

"""Lower bounds of the star graph's papers, as claims on the runs that they concern.

In unit steps (one message a directed link and step) they are those of Fragopoulou and Akl: TR 93-346, section 2 and
tables 1 to 4, and for x copies of every message the tables of their paper on edge-disjoint trees. In time, Ts for a
start-up and Tc for a byte, they are lemmas 1 and 2 of Tseng and Sheu.
"""

from emunode.collective.base import Claim
from emunode.model import Collective, Job, PortModel
from emunode.topology.base import Topology

REPORT = "Fragopoulou-Akl 1993 (TR 93-346)"
DISJOINT = "Fragopoulou-Akl 1996 (edge-disjoint trees)"
MULTIPLE = "Tseng-Sheu 1997"


def total_distance(topology: Topology) -> int:
    """t_n = n! (n + 2/n + H_n - 4), the sum of all distances from one node."""
    return sum(distance * nodes for distance, nodes in enumerate(topology.distance_distribution()))


def unit_bounds(topology: Topology, job: Job, copies: int) -> list[Claim]:
    """Fewest steps and transmissions when every source has `copies` unit messages for everybody, or for each
    target.

    A node (the busiest) sends or receives a given number of messages over n-1 links or, over one port, over one;
    every message travels at least its distance.
    """
    order, t_n = topology.order, total_distance(topology)
    paper = DISJOINT if job.redundancy > 1 else REPORT
    match job.collective:
        case Collective.BROADCAST | Collective.REDUCE:
            busiest, hops, where = copies, copies * (order - 1), f"{DISJOINT}, single node broadcast"
        case Collective.ALLGATHER:
            busiest, hops = copies * (order - 1), copies * order * (order - 1)
            where = f"{paper}, tables 1 and 4 (multinode broadcast)"
        case Collective.SCATTER | Collective.GATHER:
            busiest, hops, where = copies * (order - 1), copies * t_n, f"{paper}, tables 2 and 4 (scattering)"
        case Collective.ALLTOALL:
            busiest, hops, where = copies * t_n, copies * order * t_n, f"{paper}, tables 3 and 4 (total exchange)"
    steps = busiest if job.port_model is PortModel.ONE_PORT else -(-busiest // topology.degree)
    if job.collective in (Collective.BROADCAST, Collective.REDUCE):
        steps += topology.diameter - 1
    return [
        Claim("steps", steps, ">=", f"{where}: lower bound"),
        Claim("segments", hops, ">=", f"{where}: lower bound"),
    ]


def time_bounds(topology: Topology, job: Job) -> list[Claim]:
    """Fewest start-ups one after the other, and bytes that one link carries, in a broadcast or an allgather (lemmas
    1 and 2).
    """
    one_port = job.port_model is PortModel.ONE_PORT
    sources = topology.order - 1 if job.collective is Collective.ALLGATHER else 1
    received = sources * job.messages * job.message_bytes
    startups = max(topology.diameter, (topology.order - 1).bit_length() if one_port else 0)
    lemma = f"{MULTIPLE}, lemma {2 if job.collective is Collective.ALLGATHER else 1}"
    return [
        Claim("startups", startups, ">=", f"{lemma}: diameter{', ceil(log2 n!)' if one_port else ''}"),
        Claim("transfer_bytes", received if one_port else -(-received // topology.degree), ">=", f"{lemma}: bandwidth"),
    ]


def least_time(topology: Topology, job: Job, startup: float, per_byte: float) -> Claim:
    """The larger of the two lower bounds in seconds: one holds if bytes cost nothing, the other if start-ups do not."""
    startups, transferred = time_bounds(topology, job)
    assert isinstance(startups.predicted, int)
    assert isinstance(transferred.predicted, int)
    seconds = max(startup * startups.predicted, per_byte * transferred.predicted)
    return Claim("virtual_seconds", seconds, ">=", f"{startups.source}; {transferred.source}")

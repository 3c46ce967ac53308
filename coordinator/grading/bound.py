"""How far a run is from the fewest steps that any algorithm needs: distances and the ports of a node."""

from coordinator.grading.played_run import PlayedRun
from emunode.model import Collective, PortModel


def fewest_steps(run: PlayedRun) -> tuple[int, str]:
    """A lower bound on the steps of one message each, and its reason; packets hold what `link_capacity` says."""
    topology, spec = run.topology, run.spec
    nodes = len(topology.data_ranks)
    one_port = spec.port_model is not PortModel.ALL_PORT
    rooted = spec.collective not in (Collective.ALLGATHER, Collective.ALLTOALL)
    farthest = topology.eccentricity(spec.source) if rooted else max(map(topology.eccentricity, topology.ranks()))
    bounds = [(farthest, "the largest distance")]
    if one_port:
        bounds.append(
            ((nodes - 1).bit_length(), f"ceil(log2 {nodes}): over one port the informed nodes at most double")
        )
    capacity = run.opened.get("link_capacity")
    if isinstance(capacity, int) and spec.collective not in (Collective.BROADCAST, Collective.REDUCE):
        ranks = (spec.source,) if rooted else topology.data_ranks
        ports = 1 if one_port else min(len(topology.ports(rank)) for rank in ranks)
        pieces = (nodes - 1) * spec.messages * int(run.opened["segments_per_message"])
        through = -(-pieces // (ports * capacity))
        bounds.append((through, f"{pieces} segments through {ports} {'port' if ports == 1 else 'ports'} of a node"))
    return max(bounds)

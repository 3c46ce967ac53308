"""The network as a page draws it: positions and labels of all nodes, and the paths of links where they are few."""

from collections.abc import Mapping

import numpy as np

from coordinator.live.frames import node_goals
from coordinator.live.session import LEAST_STEPS_PER_SECOND, MOST_STEPS_PER_SECOND, Status, fault_kinds
from coordinator.live.theory import is_contested
from coordinator.planning.plan import Plan
from coordinator.reports.layout import layout_of, shapes_of
from coordinator.reports.link_paths import link_paths
from coordinator.reports.maps.link_map import NODES_WITH_LINKS
from coordinator.reports.maps.marks import STATE_COLOURS
from coordinator.reports.scene.nodes import ALL_TO_ALL, GIVING
from coordinator.reports.scene.votes import judged_ranks, segments_due
from coordinator.reports.theme import VIRIDIS
from coordinator.scenario.command import describe
from emunode.faults.kinds import LinkFault, NodeFault, field_names, kind_of, value_names
from emunode.model import ROOTLESS, Rank
from emunode.topologies.base import Topology


def picture_of(plan: Plan) -> dict[str, object]:
    """Return the network, its drawing and the kinds of fault: everything that a page needs once."""
    topology, layout = plan.topology, layout_of(plan.topology)
    rooted = plan.spec.collective not in ROOTLESS and not plan.spec.permutation
    return {
        "title": topology.title,
        "collective": str(plan.spec.collective),
        "algorithm": describe(plan.scenario.model_dump()),
        "driver": plan.scenario.driver,
        "giving": plan.spec.collective in GIVING,
        "order": topology.order,
        "degree": topology.degree,
        "height": round(layout.height, 1),
        "radius": round(layout.radius, 2),
        "x": np.round(layout.x, 1).tolist(),
        "y": np.round(layout.y, 1).tolist(),
        "labels": [topology.label(rank) for rank in topology.ranks()],
        "goals": node_goals(plan),
        "judged": judged_ranks(plan).tolist(),
        "votesDue": segments_due(plan),
        "root": plan.spec.source if rooted else None,
        "pies": plan.spec.collective in ALL_TO_ALL,
        "states": {state.value: colour for state, colour in STATE_COLOURS.items()},
        "scale": VIRIDIS,
        "links": _links(topology) if topology.order <= NODES_WITH_LINKS else None,
        "kinds": fault_kinds(),
        "rates": [LEAST_STEPS_PER_SECOND, MOST_STEPS_PER_SECOND],
    }


def _links(topology: Topology) -> dict[str, object]:
    """Return every directed link: sender, port, receiver, and its path in the syntax of SVG."""
    ends = [(rank, port, other) for rank in topology.ranks() for port, other, _ in topology.ends(rank)]
    senders, ports, receivers = np.array(ends, dtype=np.int64).reshape(-1, 3).T
    paths, heads = link_paths(layout_of(topology), shapes_of(topology, senders, ports, receivers), senders, receivers)
    return {
        "senders": senders.tolist(),
        "ports": ports.tolist(),
        "receivers": receivers.tolist(),
        "paths": paths,
        "heads": heads,
    }


def node_of(topology: Topology, rank: Rank) -> dict[str, object]:
    """Return a node with its links: for each the port, the rank and label at the other end, and the port there."""
    return {
        "rank": rank,
        "label": topology.label(rank),
        "switch": topology.is_switch(rank),
        "links": [
            {"port": port, "rank": peer, "label": topology.label(peer), "its_port": its_port}
            for port, peer, its_port in topology.ends(rank)
        ],
    }


def status_of(status: Status) -> dict[str, object]:
    """Return the state of a session as a page shows it, with every fault of the run so far."""
    topology = status.plan.topology
    faults: list[Mapping[str, object]] = []
    for fault in status.plan.faults:
        names = field_names(type(fault))
        found: dict[str, object] = {"kind": kind_of(fault), "step": fault.step}
        if "last" in names:
            found["last"] = fault.end
        if isinstance(fault, NodeFault):
            # Nothing is due to a node that is ever faulty.
            found |= {"rank": fault.rank, "excludes": fault.rank in status.plan.judged.states}
        elif isinstance(fault, LinkFault):
            found |= {"rank": fault.sender, "port": fault.port}
            found["peer"] = topology.neighbour(fault.sender, fault.port)
        values = [str(getattr(fault, name)) for name in value_names(type(fault))]
        faults.append(found | {"value": ":".join(values)})
    return {
        "version": status.version,
        "next": status.next_step,
        "running": status.running,
        "rate": status.rate,
        "undoable": status.undoable,
        "over": status.over,
        "refusal": status.refusal,
        "last": status.last,
        "steps": status.steps,
        "contested": is_contested(status.plan),
        "faults": faults,
        "specs": list(status.plan.scenario.fault),
        "command": status.command,
    }

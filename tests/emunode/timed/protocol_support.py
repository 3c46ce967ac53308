"""Runs of protocols under the timed clock."""

from typing import Any

import polars as pl

from coordinator.history.prediction import completed, prediction
from coordinator.history.timetable import Timetable
from coordinator.scenario.fault_syntax import parse_faults
from emunode.algorithms.registry import make_algorithm
from emunode.model import Collective, CollectiveSpec, Detection, FaultKnowledge, PortModel, ReliableLinks
from emunode.timed.cost_model import LinearCostModel
from emunode.topologies.registry import parse_topology

MS = 1_000_000
EIGHTH = LinearCostModel(0.0, 1e-3 / 64)
"""A segment of 64 bytes takes 1 ms, and a control segment of 8 bytes an eighth of that."""
STOP_AND_WAIT = ReliableLinks(3 * MS // 2, 3)


def predicted(
    name: str,
    faults: str = "",
    links: ReliableLinks | None = None,
    detection: Detection | None = None,
    costs: LinearCostModel = EIGHTH,
    limit: int = 10**6,
    **more: Any,
) -> Timetable:
    topology = parse_topology(name)
    spec = CollectiveSpec(
        name,
        Collective.BROADCAST,
        more.pop("algorithm", "bfs-tree"),
        0,
        PortModel(more.pop("ports", "all-port")),
        reliable=links,
        detection=detection,
        knowledge=FaultKnowledge.NONE if detection is None else FaultKnowledge.DETECT,
        **{"message_bytes": 64, **more},
    )
    parsed = parse_faults(faults.split(), topology, timed=True)
    return completed(prediction(make_algorithm(topology, spec), parsed, costs, limit))


def data(timetable: Timetable) -> pl.DataFrame:
    """The packets that carry segments: all control segments have 8 bytes."""
    return timetable.packets.filter(pl.col("bytes") > 8)

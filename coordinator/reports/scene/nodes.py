"""Facts about nodes beside their packets: the source, the faulty nodes, and the nodes that lack something."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.reports.data import RunData
from coordinator.reports.scene.votes import segments_due
from emunode.errors import ScenarioError
from emunode.faults.kinds import KINDS, NodeFault
from emunode.model import ROOTLESS

GIVING = ("gather", "reduce")
"""Collectives whose nodes are judged by their sends, since only the target receives."""
ALL_TO_ALL = ("allgather", "alltoall", "allreduce")


def giving(data: RunData) -> bool:
    """Return whether nodes are judged by the messages that they send, not by the messages that they receive."""
    return data.get("collective") in GIVING


def has_root(data: RunData) -> bool:
    """Return whether one node is the source or the target of everything."""
    return str(data.get("collective")) not in ROOTLESS and not data.get("permutation")


def root_of(data: RunData) -> int | None:
    """Return the rank of the source, or of the target of a gather or reduce; None if there is no single one."""
    if not has_root(data) or data.topology is None:
        return None
    label = data.get("source")
    try:
        return data.topology.rank(str(label)) if label is not None else 0
    except ScenarioError:  # the label comes from a damaged file
        return None


class NodeMark(NamedTuple):
    """The mark of a faulty node, with the words for its kind of fault and its state, and the step when it begins."""

    shape: str
    kind: str
    state: str
    step: int


def broken_nodes(data: RunData) -> dict[int, NodeMark]:
    """Return for each faulty rank its first fault."""
    found: dict[int, NodeMark] = {}
    for fault in data.faults:
        rank, step, kind = fault.get("rank"), fault.get("step"), str(fault.get("kind"))
        record = KINDS.get(kind)
        if record is None or not issubclass(record, NodeFault) or not record.mark:
            continue
        if isinstance(rank, int) and isinstance(step, int) and 0 <= rank < data.order:
            # One name for all strategies of byzantine nodes.
            named = record.state if record.mark == "diamond" else kind
            found.setdefault(rank, NodeMark(record.mark, named, record.state, step))
    return found


def lacking(data: RunData) -> NDArray[np.bool_] | None:
    """Return for each rank whether a healthy node lacks something that is due to it; None if the nodes are unknown."""
    if data.nodes is None:
        return None
    if data.get("intact_deliveries") == data.get("expected_deliveries"):
        return np.zeros(len(data.nodes), dtype=np.bool_)
    listed = data.summary.get("cut_off")
    if isinstance(listed, list) and len(listed) == data.summary.get("cut_off_count"):
        labels = {str(node.get("label")) for node in listed if isinstance(node, dict)}
        return data.nodes["label"].is_in(sorted(labels)).to_numpy()
    received, expected = (data.nodes[name].fill_null(0).to_numpy() for name in ("received", "expected"))
    due = expected if data.plan is None else segments_due(data.plan)
    return np.asarray((received < due) & (expected > 0))

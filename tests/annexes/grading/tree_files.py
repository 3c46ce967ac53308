"""Files of trees, as students hand them in."""

import csv
from collections.abc import Sequence
from pathlib import Path

from emunode.topologies.base import Topology
from emunode.trees.base import Trees


def labels_of(topology: Topology, trees: Trees) -> list[list[str | None]]:
    """Return the label of every parent, by tree and rank."""
    return [
        [
            topology.label(topology.neighbour(rank, trees.parent(rank, tree))) if rank else None
            for rank in topology.ranks()
        ]
        for tree in range(trees.count)
    ]


def write_csv(path: Path, topology: Topology, trees: Sequence[Sequence[object]], column: str = "parent") -> Path:
    """Write the answer of every rank in every tree as CSV; `column` names the answers."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("tree", "label", column))
        for tree, answers in enumerate(trees):
            rows.writerows((tree, topology.label(rank), answer) for rank, answer in enumerate(answers))
    return path

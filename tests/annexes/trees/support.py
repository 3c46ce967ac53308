"""Trees of this project as files, and runs of them."""

from pathlib import Path

from coordinator.annexes.trees.scenario_values import read_trees
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.trees.base import Trees
from tests.annexes.grading.tree_files import labels_of, write_csv
from tests.helpers.command_line import fields
from tests.helpers.scenarios import Case

MINE = """
def parent(label, tree):
    home = "".join(sorted(label))
    if label == home:
        return None
    place = home.index(label[0]) or next(i for i in range(1, len(label)) if label[i] != home[i])
    return label[place] + label[1:place] + label[0] + label[place + 1 :]
"""
"""The greedy tree of Tseng and Sheu by labels."""


def case_of(path: Path, line: str, *faults: str, **more: object) -> Case:
    """Return the case of a line such as `star:4 broadcast x=3` over the trees of a file."""
    topology, collective, *others = line.split()
    values = fields(" ".join((topology, collective, "trees", *others)))
    return Case(values, *faults, trees=read_trees(path, parse_topology(topology)).json, **more)


def csv_of(path: Path, topology: Topology, trees: Trees) -> Path:
    """Write trees with root 0 as CSV."""
    return write_csv(path, topology, labels_of(topology, trees))

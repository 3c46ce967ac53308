"""The base class of the spanning trees of the star graph. Link types t = 2..n are ports t - 2 everywhere."""

from typing import ClassVar

from emunode.topologies.base import Topology
from emunode.topologies.star import StarGraph
from emunode.trees.base import Trees, require


class StarTrees(Trees):
    """Spanning trees of a permutation star graph S_n."""

    title: ClassVar[str]
    """The name of the trees in error messages."""

    def __init__(self, topology: Topology, count: int = 1) -> None:
        """Raise ScenarioError (field `topology`) if `topology` is not a star graph."""
        super().__init__(topology, count)
        self.star = require(topology, StarGraph, self.title)

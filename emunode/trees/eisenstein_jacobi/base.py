"""The base class of the spanning trees of Eisenstein-Jacobi networks."""

from typing import ClassVar

from emunode.topologies.base import Topology
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.trees.base import Trees, require


class EisensteinJacobiTrees(Trees):
    """Spanning trees of an Eisenstein-Jacobi network EJ_alpha^(n)."""

    title: ClassVar[str]
    """The name of the trees in error messages."""

    def __init__(self, topology: Topology, count: int = 1) -> None:
        """Raise ScenarioError (field `topology`) if `topology` is not an Eisenstein-Jacobi network."""
        super().__init__(topology, count)
        self.network = require(topology, EisensteinJacobi, self.title)

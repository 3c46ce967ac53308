"""Dense Eisenstein-Jacobi and Gaussian networks: the common part of the repairs for them."""

from emunode.algorithms.base import Algorithm
from emunode.algorithms.tree_collective import TreeCollective
from emunode.annexes.repair.components import BrokenLinks
from emunode.annexes.repair.rules import PlannedRule
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.residues import Gaussian, ResidueNetwork


class DenseRule(PlannedRule):
    """A rule for nodes that crash or hang in a dense network of one dimension, alpha = k + (k+1) rho or k + (k+1) i.

    A dense network has the most nodes of all networks of its kind and diameter k: 3k^2 + 3k + 1, or 2k^2 + 2k + 1.
    """

    def require(self, algorithm: Algorithm) -> TreeCollective:
        found = super().require(algorithm)
        network = found.topology
        if not isinstance(network, EisensteinJacobi | Gaussian) or not _is_dense(network):
            raise self.refusal(f"it needs a dense network ej:K+(K+1) or gaussian:K+(K+1), not {network.name}")
        return found

    def require_nodes(self, broken: BrokenLinks) -> None:
        """Raise ScenarioError for broken links."""
        if not broken.only_nodes:
            raise self.refusal("it goes round nodes that crash or hang, not links; use spanning-tree")


def _is_dense(network: ResidueNetwork) -> bool:
    return network.dimensions == 1 and network.b == network.a + 1

"""Scatter of the elements that remain when n does not divide M: Johnsson and Ho (1986), section 5.1.4.

Each of n rotated trees carries M div n elements of every block. The k = M mod n remaining elements travel over k trees, one
each. The trees are chosen so that the largest load of a link is small: rotations at equal distances, or rotations and
reflections. A message here is such a remainder in k equal parts: k is the largest number below n that the choice of trees
admits and that leaves at least one byte for every part.
"""

from typing import ClassVar

from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.scatter import ALL, CubeScatter
from emunode.errors import ScenarioError
from emunode.model import PortModel
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.trees.hypercube.binomial import CubeTrees
from emunode.trees.hypercube.reflected import TurnedBinomialTrees, reflections, rotations


class RestScatter(CubeScatter):
    """Scatter in k parts, each down its own tree."""

    tables = ("", "section 5.1.4, by walking the trees")
    port_models: tuple[PortModel, ...] = (ALL,)
    allowed: ClassVar[str]
    """The condition on k, for the error message."""

    @classmethod
    def parts(cls, n: int, message_bytes: int) -> int:
        """Return k; ScenarioError (field `message_bytes`) if no k fits."""
        for k in range(min(n - 1, message_bytes), 0, -1):
            if cls.admits(n, k):
                return k
        raise ScenarioError(
            "message_bytes", message_bytes, f"{cls.name} on Q_{n} cuts a message into k parts, {cls.allowed}"
        )

    @staticmethod
    def admits(n: int, k: int) -> bool:
        """Report whether the paper defines trees for k elements."""
        raise NotImplementedError

    @staticmethod
    def edge_load_of(n: int, k: int) -> int:
        """Return the largest load of a link in elements, in closed form (from the paper)."""
        raise NotImplementedError

    def claims(self) -> list[Claim]:
        n = self.topology.degree
        most = self.edge_load_of(n, self.count) * self.spec.segments * self.spec.messages
        return [*super().claims(), Claim("max_link_segments", most, "==", f"{self.citation}: largest edge load")]


@register
class RotationsScatter(RestScatter):
    """Scatter in k parts over k rotated spanning binomial trees, n/k apart.

    All-port, n steps; k divides n. The largest load of a link is (N-1) 2^(n/k-1) / (2^(n/k) - 1) parts, the least
    that any k rotations reach. A broken link cuts off a part of every message behind it.

    Source: Johnsson and Ho, section 5.1.4 (erratum: the exponents are printed as k/2 - 1).
    """

    name = "sbt-rotations"
    citation = "Johnsson-Ho 1986, section 5.1.4, rotations (corrected)"
    allowed = "where k < n divides n"

    @staticmethod
    def admits(n: int, k: int) -> bool:
        return k < n and n % k == 0

    @staticmethod
    def edge_load_of(n: int, k: int) -> int:
        # A whole number: n/k divides n, and so 2^(n/k) - 1 divides N - 1.
        return ((1 << n) - 1) * (1 << n // k - 1) // ((1 << n // k) - 1)

    def make_trees(self, topology: Topology) -> CubeTrees:
        n = topology.degree
        return TurnedBinomialTrees(topology, rotations(n, self.parts(n, self.spec.message_bytes)))


@register
class ReflectionsScatter(RestScatter):
    """Scatter in k parts over k/2 rotated spanning binomial trees, 2n/k apart, and their reflections.

    All-port, n steps; k is even and divides 2n. The largest load of a link is (N-1) (2^(2n/k-1) + 1) / (2^(2n/k) - 1)
    parts, less than by rotations alone. A broken link cuts off a part of every message behind it.

    Source: Johnsson and Ho, section 5.1.4.
    """

    name = "sbt-reflections"
    citation = "Johnsson-Ho 1986, section 5.1.4, rotations and reflections"
    allowed = "where k < n is even and divides 2n"

    @staticmethod
    def admits(n: int, k: int) -> bool:
        return k < n and k % 2 == 0 and 2 * n % k == 0

    @staticmethod
    def edge_load_of(n: int, k: int) -> int:
        return ((1 << n) - 1) * ((1 << 2 * n // k - 1) + 1) // ((1 << 2 * n // k) - 1)

    def make_trees(self, topology: Topology) -> CubeTrees:
        n = topology.degree
        return TurnedBinomialTrees(topology, reflections(n, self.parts(n, self.spec.message_bytes)))

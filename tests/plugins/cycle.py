"""A plug-in for tests: a network, a broadcast with its tree, and a kind of fault."""

from dataclasses import dataclass
from typing import Self

from emunode.algorithms.claims import Claim
from emunode.algorithms.tree_collective import TreeCollective
from emunode.errors import ScenarioError
from emunode.faults.kinds import FOREVER, LinkFault
from emunode.faults.transit import LinkTransit
from emunode.model import Collective, Port, Rank, Step
from emunode.registry import register
from emunode.topologies.base import CayleyTopology, Topology
from emunode.trees.base import Trees


@register
class Cycle(CayleyTopology):
    """The cycle C_N; port 0 leads to the next rank, port 1 to the previous one."""

    family = "cycle"
    form = "cycle:N"
    condition = "3 <= N <= 1000000"
    example = "cycle:8"
    describe = "cycle C_N: N nodes, degree 2; a link joins consecutive ranks"
    small_examples = ("cycle:3", "cycle:4", "cycle:9")

    degree = 2

    def __init__(self, order: int) -> None:
        self.order = order
        self.name = f"cycle:{order}"
        self.title = f"cycle C_{order}"

    @classmethod
    def parse(cls, parameters: str) -> Self:
        order = cls.parse_number(parameters)
        if not 3 <= order <= 1_000_000:
            raise ScenarioError("topology", f"cycle:{order}", cls.condition)
        return cls(order)

    def label(self, rank: Rank) -> str:
        return str(rank)

    def rank(self, label: str) -> Rank:
        if not (label.isdigit() and int(label) < self.order):
            raise ScenarioError("label", label, f"a number from 0 to {self.order - 1}")
        return int(label)

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        return (rank + (1 if port == 0 else -1)) % self.order

    def reverse_port(self, port: Port) -> Port:
        return 1 - port

    def relative(self, rank: Rank, root: Rank) -> Rank:
        return (rank - root) % self.order

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        return (relative + root) % self.order


class Path(Trees):
    """The path 0, 1, .., N - 1."""

    def parent(self, rank: Rank, tree: int) -> Port:
        if not rank:
            raise ValueError("the root has no parent")
        return 1


@register
class OneWay(TreeCollective):
    """Every node forwards the message to the next one: N - 1 steps."""

    family = "cycle"
    name = "one-way"
    citation = "a plug-in"
    collective = Collective.BROADCAST

    def make_trees(self, topology: Topology) -> Trees:
        return Path(topology)

    def claims(self) -> list[Claim]:
        return [Claim(name, self.topology.order - 1, "==", "a path of N nodes") for name in ("steps", "deliveries")]


@register
@dataclass(frozen=True, slots=True)
class DropEvery(LinkFault):
    """Every `packet`-th packet that leaves from `step` to `last` is lost."""

    packet: int
    last: Step = FOREVER

    form = "drop-every:A~B:NUMBER[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        if transit.number() % self.packet == 0:
            transit.lost = True

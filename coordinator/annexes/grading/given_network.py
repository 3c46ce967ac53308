"""A network that a submission defines, as the table that its process answered: checked, then used like any other."""

from collections import Counter
from typing import Self

from coordinator.annexes.grading.answers import NetworkTable
from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.topologies.base import ABSENT, Topology

MOST_NODES = 4096


class GivenNetwork(Topology):
    """A network by its table of neighbours. It is not registered: nothing can ask for it by name."""

    family = "given"
    form = condition = example = describe = ""
    small_examples = ()
    defined_by_name = False

    def __init__(self, name: str, table: NetworkTable) -> None:
        """Raise ScenarioError (field `topology`) for a malformed table; `problems` finds other mistakes."""
        labels, neighbours, degree = table.labels, table.neighbours, table.degree
        sized = 2 <= len(labels) == len(neighbours) <= MOST_NODES
        if not sized or not 0 <= degree <= MOST_NODES or not all(len(row) == degree for row in neighbours):
            raise ScenarioError(
                "topology", name, f"expected labels and {degree!r} neighbours of 2 to {MOST_NODES} nodes"
            )
        self.name = name
        self.title = table.title
        self.order = len(labels)
        self.degree = degree
        self._labels = labels
        self._neighbours = neighbours  # checked by `problems`
        self._ranks = {label: rank for rank, label in enumerate(labels)}

    @classmethod
    def parse(cls, parameters: str) -> Self:
        raise ScenarioError("topology", parameters, "it is defined by a table")

    def label(self, rank: Rank) -> str:
        return self._labels[rank]

    def rank(self, label: str) -> Rank:
        if label not in self._ranks:
            raise ScenarioError("label", label, f"expected a label such as {self._labels[0]}")
        return self._ranks[label]

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        return self._neighbours[rank][port]

    def problems(self) -> list[str]:
        """Return the labels that occur twice, links that do not lead back, and nodes that cannot be reached."""
        found = []
        if len(self._ranks) < self.order:
            twice = min(label for label, times in Counter(self._labels).items() if times > 1)
            found.append(f"{self.name}: two nodes are called {twice}")
        # A node of the submission may have 4,096 ports: a search among them for each would take minutes.
        linked = [Counter(row) for row in self._neighbours]
        for rank, row in enumerate(self._neighbours):
            for port, peer in enumerate(row):
                if peer == ABSENT:
                    continue
                if not 0 <= peer < self.order or peer == rank or linked[rank][peer] > 1:
                    found.append(f"{self.name}: port {port} of {self.label(rank)} leads to {self._shown(peer)}")
                elif rank not in linked[peer]:
                    found.append(f"{self.name}: {self.label(peer)} has no link back to {self.label(rank)}")
        return found or self._unreached()

    def _shown(self, peer: Rank) -> str:
        if 0 <= peer < self.order:
            return f"{self._labels[peer]}, which is the node itself or a neighbour at another port"
        return f"{peer!r}, which is not a node"

    def _unreached(self) -> list[str]:
        reached, waiting = {0}, [0]
        while waiting:
            for _, peer in self.adjacent(waiting.pop()):
                if peer not in reached:
                    reached.add(peer)
                    waiting.append(peer)
        lost = [self.label(rank) for rank in self.ranks() if rank not in reached]
        return [f"{self.name}: not connected to {self.label(0)}: {', '.join(lost[:6])}"] if lost else []

"""A plug-in: the algorithms of chapter 4 of the book for rings and for meshes with wrap-around links.

A. Grama, A. Gupta, G. Karypis, V. Kumar, Introduction to Parallel Computing, 2nd edition, Addison-Wesley 2003, chapter 4.

    coordinator run --plugin book.py --topology torus:4x4 --collective allgather --algorithm book --port-model one-port

Each algorithm is a table of hops: in this step, this node passes on this message over this port. Ranks are relative to the
origin of the message. On a ring, port 0 leads to the next node and port 1 to the previous one; on a torus, ports 0 and 1 do
so within a row, and ports 2 and 3 within a column. The hypercube needs no table: its algorithms are part of the package.
"""

from abc import abstractmethod
from collections.abc import Iterator

from emunode.algorithms.any_network.table_collective import TableCollective, TableHop
from emunode.algorithms.claims import Claim
from emunode.algorithms.transforms import backwards
from emunode.model import ALL_RANKS, Collective, Port, PortModel, Rank, Step
from emunode.registry import register

Hop = tuple[Step, Rank, Port, Rank]
"""Step, sender, port and target of a message, with ranks relative to its origin."""


class BookCollective(TableCollective):
    """The hops of the messages of one node; all messages for one link and step travel in one packet."""

    name = "book"
    citation = "Grama et al. 2003, chapter 4"
    port_models = (PortModel.ONE_PORT, PortModel.ALL_PORT)

    def validate(self) -> None:
        super().validate()
        self.cut()
        sides = self.sides
        square = len(sides) <= 2 and len(set(sides)) == 1 and sides[0] > 2
        self.topology.require(square, "the book's algorithms need a ring, or a square torus with sides of at least 3")

    @property
    def sides(self) -> list[int]:
        """The number of nodes of a row, and of a column."""
        return [int(side) for side in self.topology.name.partition(":")[2].split("x")]

    @property
    def side(self) -> int:
        """The number of nodes of a row or ring."""
        return self.sides[0]

    @property
    def dimensions(self) -> int:
        """1 for a ring, 2 for a torus."""
        return len(self.sides)

    def walk(self, rank: Rank, port: Port, count: int) -> list[Rank]:
        """Return the nodes that a walk over one port visits, from `rank` on, `count` links long."""
        ranks = [rank]
        for _ in range(count):
            ranks.append(self.topology.neighbour(ranks[-1], port))
        return ranks

    @abstractmethod
    def message_hops(self) -> Iterator[Hop]:
        """Yield the hops of the messages of one node."""

    def hops(self) -> Iterator[TableHop]:
        """Yield the same hops for every segment; of a broadcast, seen from its source."""
        source = 0 if self.translated else self.spec.source
        for step, sender, port, target in self.message_hops():
            for segment in range(self.copies):
                item = (source, target, segment)
                yield TableHop(step, self.topology.absolute(sender, source), port, item)

    def book_claims(self, steps: Step, segments: int) -> list[Claim]:
        """Return the claims of the book's formulas."""
        return [
            Claim("steps", steps, "==", f"{self.citation}, number of start-ups"),
            Claim("segments", segments * self.copies, "==", f"{self.citation}, hops of all messages"),
        ]


class OneToAll(BookCollective):
    """Both ways around the ring; on a torus first along the row of the source, then along all columns."""

    collective = Collective.BROADCAST

    def message_hops(self) -> Iterator[Hop]:
        there = self.side // 2
        row = [0]
        for dimension in range(self.dimensions):
            start = dimension * -(-self.side // 2)
            for root in tuple(row):
                for late, (port, count) in enumerate(((0, there), (1, self.side - 1 - there))):
                    ranks = self.walk(root, 2 * dimension + port, count)
                    for at, sender in enumerate(ranks[:-1]):
                        yield start + late + at + 1, sender, 2 * dimension + port, ALL_RANKS
                    row += ranks[1:] if not dimension else []

    def claims(self) -> list[Claim]:
        return self.book_claims(self.dimensions * -(-self.side // 2), self.topology.order - 1)


class AllToAll(BookCollective):
    """Around the ring, each block a link further in every step; on a torus the rows first, then columns with whole rows."""

    collective = Collective.ALLGATHER

    def message_hops(self) -> Iterator[Hop]:
        row = self.walk(0, 0, self.side - 1)
        for at, sender in enumerate(row[:-1]):
            yield at + 1, sender, 0, ALL_RANKS
        for top in row if self.dimensions == 2 else ():
            for at, sender in enumerate(self.walk(top, 2, self.side - 1)[:-1]):
                yield self.side + at, sender, 2, ALL_RANKS

    def claims(self) -> list[Claim]:
        p = self.topology.order
        return self.book_claims(self.dimensions * (self.side - 1), p * (p - 1))


class Personalised(BookCollective):
    """Every node sends all its messages to the next node, which keeps its own and passes on the others."""

    collective = Collective.ALLTOALL

    def message_hops(self) -> Iterator[Hop]:
        for across in range(self.side):
            row = self.walk(0, 0, across)
            for down in range(self.side) if self.dimensions == 2 else (0,):
                column = self.walk(row[-1], 2, down) if down else [row[-1]]
                target = column[-1]
                if not target:
                    continue
                for at, sender in enumerate(row[:-1]):
                    yield at + 1, sender, 0, target
                for at, sender in enumerate(column[:-1]):
                    yield self.side + at, sender, 2, target

    def claims(self) -> list[Claim]:
        # A message travels (side - 1) / 2 links on average in each dimension, over all pairs and the node itself.
        p = self.topology.order
        return self.book_claims(self.dimensions * (self.side - 1), p * p * self.dimensions * (self.side - 1) // 2)


@register
class Pairwise(BookCollective):
    """Where distance costs nothing: in step s every node sends to the node s places on, and to no other."""

    family = "complete"
    collective = Collective.ALLTOALL

    def validate(self) -> None:
        """Accept every size: there is no side to look at."""
        super(BookCollective, self).validate()
        self.cut()

    def message_hops(self) -> Iterator[Hop]:
        for target in range(1, self.topology.order):
            yield target, 0, target - 1, target

    def claims(self) -> list[Claim]:
        p = self.topology.order
        return self.book_claims(p - 1, p * (p - 1))


for network in ("ring", "torus"):
    for algorithm in (OneToAll, AllToAll, Personalised):
        made = register(type(f"{algorithm.__name__}On{network.title()}", (algorithm,), {"family": network}))
        if algorithm is not Personalised:
            register(backwards(made))

"""Broadcast over spanning trees: the source sends the pieces of its messages down one or several trees, pipelined.

A node that receives a piece on tree t passes it in the next step to its children in tree t. The tree says the rest:
piece number q of tree t leaves the source in step q + 1, so that over all ports the last of P pieces a tree arrives
in step height + P - 1. Under a one-port model the same rule queues: a node serves arrivals in the order in which they
came and the children of one piece in the order of the tree, one send a step.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from emunode.collective.base import Algorithm, Claim, LocalView, Rule
from emunode.errors import ScenarioError
from emunode.model import EVERYBODY, Collective, Packet, PortModel, Rank, Send, Step
from emunode.topology.base import Topology
from emunode.topology.eisenstein_jacobi import EisensteinJacobi
from emunode.trees.base import Trees
from emunode.trees.bfs import BreadthFirstTree
from emunode.trees.eisenstein_jacobi import SectorTree
from emunode.trees.hypercube import BinomialTree
from emunode.trees.star import GreedyTree


class TreeRule(Rule):
    """Pass what arrives on a tree to the children in that tree; the source feeds each tree one piece a step."""

    __slots__ = ("_algorithm", "_relative")

    def __init__(self, algorithm: "TreeBroadcast", view: LocalView) -> None:
        self._algorithm = algorithm
        self._relative = view.relative(algorithm.job.source)

    def start(self) -> Iterator[Send]:
        if self._relative:
            return
        algorithm = self._algorithm
        source, trees = algorithm.job.source, algorithm.trees.count
        for index in range(algorithm.pieces * algorithm.job.messages):
            tree = index % trees
            payload = algorithm.payloads.piece(source, EVERYBODY, index)
            for port in algorithm.trees.children(0, tree):
                yield index // trees + 1, port, (source, EVERYBODY, tree, index, payload)

    def receive(self, step: Step, packets: Sequence[Packet]) -> Iterable[Send]:
        children = self._algorithm.trees.children
        return [
            (step + 1, port, segment)
            for _, segments in packets
            for segment in segments
            for port in children(self._relative, segment[2])
        ]


class TreeBroadcast(Algorithm):
    """Pipelined broadcast over the spanning trees of a subclass."""

    collective = Collective.BROADCAST
    port_models = (PortModel.ALL_PORT, PortModel.ONE_PORT)
    link_capacity: int | None = 1

    @property
    def queueing(self) -> bool:  # type: ignore[override]  # depends on the port model asked for
        return self.job.port_model is not PortModel.ALL_PORT

    def validate(self) -> None:
        super().validate()
        self.trees = self.make_trees(self.topology)
        self.pieces = self.job.segments * self.trees.count
        if self.pieces > self.job.message_bytes:
            raise ScenarioError(
                "segments",
                self.job.segments,
                f"a message of {self.job.message_bytes} bytes cannot be cut into {self.pieces} pieces of at least one byte",
            )

    @abstractmethod
    def make_trees(self, topology: Topology) -> Trees:
        """The spanning trees, rooted at 0."""

    def rule(self, view: LocalView) -> Rule:
        return TreeRule(self, view)

    @property
    def injections(self) -> int:
        """Pieces that the source sends down each tree."""
        return self.job.messages * self.job.segments

    @cached_property
    def height(self) -> int:
        """Largest height of the trees, which here are shortest-path trees."""
        return self.topology.diameter

    def claims(self) -> list[Claim]:
        order, injections = self.topology.order, self.injections
        claims = [
            Claim("packets", injections * self.trees.count * (order - 1), "==", f"{self.source}: a spanning tree"),
            Claim("deliveries", (order - 1) * self.job.messages, "==", f"{self.source}: a spanning tree"),
        ]
        if self.job.port_model is PortModel.ALL_PORT:
            steps = self.height + injections - 1
            claims.append(Claim("steps", steps, "==", f"{self.source}: height + pieces - 1"))
        else:
            claims.append(Claim("steps", self._one_port_steps(), "==", f"{self.source}: tree served one port a step"))
            rounds = (order - 1).bit_length()
            claims.append(Claim("steps", rounds, ">=", "ceil(log2 N): the informed can at most double"))
        claims.append(Claim("max_link_segments_per_step", 1, "==", f"{self.source}: one piece a link and step"))
        return claims

    def served(self, crashed: Mapping[Rank, Step]) -> int | None:
        """Messages received in full by ranks that never crash: those whose tree path was alive when it was needed."""
        total = self.injections
        pieces = [0] * self.job.messages
        late: dict[Rank, list[int]] = {}
        for rank, number, _ in self._arrivals(crashed):
            late.setdefault(rank, list(pieces))[number // self.job.segments] += 1
        del total
        full = self.job.segments * self.trees.count
        return sum(
            sum(got == full for got in by_message)
            for rank, by_message in late.items()
            if self.topology.absolute(rank, self.job.source) not in crashed
        )

    def _one_port_steps(self) -> int:
        return max((step for _, _, step in self._arrivals({})), default=0)

    def _arrivals(self, crashed: Mapping[Rank, Step]) -> Iterator[tuple[Rank, int, Step]]:
        """(relative rank, piece number in its tree, step) of every arrival, by walking the trees, not by running nodes."""
        gone = {self.topology.relative(rank, self.job.source): step for rank, step in crashed.items()}
        one_port = self.job.port_model is not PortModel.ALL_PORT
        for tree in range(self.trees.count):
            holding: list[tuple[Rank, list[Step]]] = [(0, list(range(self.injections)))]
            while holding:
                rank, held = holding.pop()
                children = self.trees.children(rank, tree)
                arrivals: list[list[Step]] = [[] for _ in children]
                free = 0
                for step in held:
                    for child, steps in enumerate(arrivals):
                        free = max(free, step) + 1 if one_port else step + 1
                        steps.append(free)
                del free
                for port, steps in zip(children, arrivals, strict=True):
                    child_rank = self.topology.neighbour(rank, port)
                    end = min(gone.get(rank, NEVER), gone.get(child_rank, NEVER))
                    kept = [step for step in steps if step < end]
                    for number, step in enumerate(kept):
                        yield child_rank, number, step
                    if kept:
                        holding.append((child_rank, kept))


NEVER = 2**62


class BreadthFirstBroadcast(TreeBroadcast):
    """Down the breadth-first tree in which every rank hangs under its lowest port that leads one closer."""

    name = "bfs-tree"
    source = "breadth-first spanning tree (E. F. Moore 1959)"

    def make_trees(self, topology: Topology) -> Trees:
        return BreadthFirstTree(topology)


class GreedyBroadcast(TreeBroadcast):
    """Down the greedy tree of the star graph: each node hangs where the first symbol goes home.

    A shortest-path tree: height floor(3(n-1)/2) = the diameter, n!-1 transmissions a piece. One faulty node or link cuts
    off its subtree. Tseng and Sheu 1997, section 3 (tree L(r)).
    """

    name = "greedy-tree"
    source = "Tseng-Sheu 1997, tree L(r)"

    def make_trees(self, topology: Topology) -> Trees:
        return GreedyTree(topology)


class BinomialBroadcast(TreeBroadcast):
    """Down the spanning binomial tree of the hypercube.

    n steps over all ports, n a packet over one port: dimension d of packet q in cycle qn + d. Johnsson and Ho 1986,
    section 3.2 and table 4. Legal under every port model, even with one send or one receive a step.
    """

    name = "sbt"
    source = "Johnsson-Ho 1986, table 4 (SBT)"
    port_models = (PortModel.ALL_PORT, PortModel.EXCHANGE, PortModel.ONE_PORT, PortModel.SEND_OR_RECEIVE)

    def make_trees(self, topology: Topology) -> Trees:
        return BinomialTree(topology)

    def claims(self) -> list[Claim]:
        claims = super().claims()
        if self.job.port_model is not PortModel.ALL_PORT:
            cycles = self.topology.degree * self.injections
            claims.append(Claim("steps", cycles, "==", f"{self.source}: nP"))
        return claims


class ImprovedBroadcast(TreeBroadcast):
    """The improved one-to-all broadcast of Eisenstein-Jacobi networks, for every 0 <= a <= b and any dimension.

    Every node sends all it ever sends in the step after it received, so that each receives in the step that is its
    distance: nD steps, D = floor((a+2b)/3), and N^n - 1 packets. Hussain, Algorithms 1 and 2. Errata: Algorithm 1
    line 6 prints major -rho2 for the packet leaving via -rho, which must be -rho; the counters D-1 fit b = a+1 only and are
    replaced by the sector position of the receiver, which gives the same events there and is right everywhere.
    """

    name = "improved"
    source = "Hussain, Algorithms 1 and 2 (corrected)"

    def make_trees(self, topology: Topology) -> Trees:
        assert isinstance(topology, EisensteinJacobi)
        return SectorTree(topology)

    def claims(self) -> list[Claim]:
        claims = super().claims()
        if self.job.port_model is PortModel.ALL_PORT and self.injections == 1:
            receivers = self.topology.distance_distribution()[1:]
            claims.append(Claim("receivers_per_step", receivers, "==", "Hussain, table 2: everybody at its distance"))
        return claims

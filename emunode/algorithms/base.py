"""What an algorithm is: a local rule for every rank, the claims of its paper, and what both need to know.

An `Algorithm` is built once a process from a topology and a `CollectiveSpec`; it holds what all ranks may share because
every rank would compute the same (tables that depend on the network alone). A `Rule` is built once a rank and sees a
`LocalView`. It is called with what arrived in a step and answers with what shall leave in later steps. It has no clock,
no socket, and no way to another rank's state: everything it knows is its own address, the arithmetic of the topology,
and what it was sent.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar, get_args

from emunode.algorithms.claims import Claim, Relation
from emunode.algorithms.losses import Losses, Outages
from emunode.algorithms.payload import Payloads
from emunode.errors import ScenarioError
from emunode.model import (
    ALL_RANKS,
    Collective,
    CollectiveSpec,
    Duplex,
    PortModel,
    PortPacket,
    Rank,
    ScheduledSend,
    Step,
)
from emunode.topologies.base import Topology

Content = Callable[[Rank, Rank, int], bytes | None]


class LocalView:
    """All that a rule may ask: its own rank, the topology's arithmetic on it, and which of its ports are known live.

    `live_ports` are all ports unless the scenario says that ranks know what is broken beside them; engines renew it.
    """

    __slots__ = ("live_ports", "rank", "relative")

    def __init__(self, topology: Topology, rank: Rank) -> None:
        self.rank = rank
        self.live_ports: Sequence[int] = range(topology.degree)
        self.relative: Callable[[Rank], Rank] = partial(topology.relative, rank)
        """This rank's address under the translation that carries a given root to 0."""


class Rule(ABC):
    """The local part of an algorithm at one rank."""

    __slots__ = ()

    def start(self) -> Iterable[ScheduledSend]:
        """What this rank sends of its own accord, in order of steps; drawn lazily, so a long schedule costs nothing."""
        return ()

    @abstractmethod
    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        """Everything that arrived in `step`, by ascending port; what shall leave in step + 1 or later."""


class Algorithm(ABC):
    """One collective algorithm on one network. Subclasses say in their docstring what a paper says of them.

    Raises ScenarioError (exit status 2) from the constructor when the job asks for what it does not do.
    """

    name: ClassVar[str]
    collective: ClassVar[Collective]
    port_models: tuple[PortModel, ...] = (PortModel.ALL_PORT,)
    """The port models it has a schedule for, the paper's own first."""
    duplexes: tuple[Duplex, ...] = (Duplex.FULL, Duplex.HALF)
    """The kinds of links it has a schedule for; whether it keeps to half-duplex ones, the nodes watch."""
    link_capacity: int | None = None
    """Most segments in one packet, by the paper; None where it sets no bound."""
    ack_bytes: ClassVar[int] = 0
    """Size of what receivers answer, over one hop, under the name of what they answer with themselves as target; or 0."""
    disjoint_paths: ClassVar[bool] = False
    """Whether the copies of a message take paths that share no inner node, so that each fault stops one copy at most."""
    negative_control: ClassVar[bool] = False
    """Whether it reproduces a printed error, so that runs violate what the paper claims of it."""
    copies_keep_trees: ClassVar[bool] = True
    """Whether a copy stays on its tree, and no link carries a copy twice in a step; not so in some negative controls."""
    citation: ClassVar[str]
    """The literature, with section, table or theorem."""

    segments_per_message: int = 1
    """Segments of each message, over all trees or routes."""

    def __init__(self, topology: Topology, spec: CollectiveSpec) -> None:
        self.topology = topology
        self.spec = spec
        self.validate()
        self.payloads = Payloads(spec.seed, spec.message_bytes, self.segments_per_message)

    def renew(self, spec: CollectiveSpec) -> None:
        """Be the same algorithm for another run, whose job differs in nothing but its seed and what ranks know."""
        self.spec = spec
        self.payloads = Payloads(spec.seed, spec.message_bytes, self.segments_per_message)
        self.__dict__.pop("content", None)

    def validate(self) -> None:
        """Refuse what this algorithm cannot do; subclasses add their own conditions and set `segments`."""
        spec = self.spec
        if spec.port_model not in self.port_models:
            allowed = ", ".join(self.port_models)
            raise ScenarioError("port_model", str(spec.port_model), f"{self.name} is defined for: {allowed}")
        if spec.duplex not in self.duplexes:
            raise ScenarioError(
                "duplex", str(spec.duplex), f"{self.name} needs {' or '.join(self.duplexes)}-duplex links"
            )
        if spec.redundancy > self.max_redundancy:
            most = self.max_redundancy
            allowed = "one tree" if most == 1 else f"1..{most} trees"
            raise ScenarioError("redundancy", spec.redundancy, f"{self.name} carries each message on {allowed}")

    def cut(self, parts: int = 1) -> None:
        """Cut every message into `parts` parts of `spec.segments` segments each; refuse segments of less than a byte."""
        spec = self.spec
        self.segments_per_message = spec.segments * parts
        if spec.message_bytes < parts:
            raise ScenarioError(
                "message_bytes",
                spec.message_bytes,
                f"{self.name} on {self.topology.name} cuts each message into {parts} parts: at least {parts} bytes",
            )
        if self.segments_per_message > spec.message_bytes:
            raise ScenarioError(
                "segments",
                spec.segments,
                f"{self.name} cuts a message of {spec.message_bytes} bytes into at most "
                f"{spec.message_bytes // parts} segments" + (f" for each of {parts} parts" if parts > 1 else ""),
            )

    @property
    def largest_segment_bytes(self) -> int:
        """Size of the longest segment of a message, in bytes."""
        return -(-self.spec.message_bytes // self.segments_per_message)

    @property
    def byte_relation(self) -> Relation:
        """The relation of a claim that counts every segment as long as the longest one."""
        return "<=" if self.spec.message_bytes % self.segments_per_message else "=="

    @property
    def max_redundancy(self) -> int:
        """Most trees that can carry one message; 1 for an algorithm without redundancy."""
        return 1

    @property
    def tolerated_faults(self) -> int:
        """Number of faulty nodes or links that leave every healthy rank served, by theory."""
        return self.spec.redundancy - 1 if self.disjoint_paths else 0

    @property
    def sources(self) -> range:
        """The ranks that start with something to send."""
        if self.collective in (Collective.BROADCAST, Collective.SCATTER):
            return range(self.spec.source, self.spec.source + 1)
        return self.topology.ranks()

    @property
    def target(self) -> Rank:
        """Target of every message that is meant for one rank or for all (broadcast, allgather, gather, reduce)."""
        return self.spec.source if self.collective in (Collective.GATHER, Collective.REDUCE) else ALL_RANKS

    @abstractmethod
    def rule(self, view: LocalView) -> Rule:
        """The rule of one rank."""

    def segments_due(self, message: int) -> int:
        """Different segments that a rank must have received to have `message` (of one origin; of all, in a reduce)."""
        del message
        return self.segments_per_message

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        """The best number of segments by the paper's formula; ScenarioError where it has none."""
        raise ScenarioError("segments", "auto", f"{cls.name} has no formula for it; give a number")

    @cached_property
    def content(self) -> Content:
        """The right payload of (origin, target, segment), for the judge at its receiver; None: only the end can tell."""
        return self.payloads.segment

    @abstractmethod
    def claims(self) -> list[Claim]:
        """What holds when nothing breaks."""

    def structure_claims(self) -> list[Claim]:
        """What holds of the paths that messages take when nothing breaks, as a list that is cheap to make.

        `coordinator.results.structure` measures the names in it from the journal. Subclasses add it to their `claims`.
        """
        return []

    def cost_claims(self, startup: float, per_byte: float) -> list[Claim]:
        """What holds of virtual time, in seconds for one start-up and one byte, when nothing breaks.

        Here: a claim about start-ups and one of the same relation about the bytes that cost time are together one about T.
        """
        claims = []
        for relation in get_args(Relation):
            found = {claim.name: claim for claim in self.claims() if claim.relation == relation}
            startups, transferred = found.get("startups"), found.get("transfer_bytes")
            if startups is not None and transferred is not None:
                assert isinstance(startups.predicted, int)
                assert isinstance(transferred.predicted, int)
                seconds = startup * startups.predicted + per_byte * transferred.predicted
                claims.append(Claim("virtual_seconds", seconds, relation, startups.source))
        return claims

    keeps_time = True
    """Whether every packet that is sent keeps the step that it has when nothing breaks, whatever is out of service."""
    exact_losses = True
    """Whether `losses` is exact for outages of any time; else only for those that last from the first step to the end."""

    @cached_property
    def final_step(self) -> Step | None:
        """The last step in which anything is sent when nothing breaks, or a bound on it; None if theory states neither."""
        steps = [claim.predicted for claim in self.claims() if claim.name == "steps" and claim.relation != ">="]
        return min((int(step) for step in steps if not isinstance(step, tuple)), default=None)

    def losses(self, outages: Outages) -> Losses | None:
        """What is lost to these outages by the schedule alone, or None if the schedule does not determine it."""
        del outages
        return None

    def claims_with_crashes(self, crashed: Mapping[Rank, Step]) -> list[Claim]:
        """What still holds when ranks crash at the start of the given steps."""
        return self.claims_with_outages(Outages.of_crashes(crashed))

    def claims_with_outages(self, outages: Outages) -> list[Claim]:
        """What still holds when nodes and links are out of service in given steps."""
        if not self._sources_live(outages.faulty):
            return []
        claims = []
        if self._count(outages) <= self.tolerated_faults:
            source = f"{self.citation}: survives {self.tolerated_faults} faults"
            claims.append(Claim("delivery_ratio", 1.0, "==", source))
        certain = self.exact_losses or outages.permanent
        losses = self.losses(outages if certain else outages.always())
        if losses is None:
            return claims
        source = f"{self.citation}: what its paths carry around the outages"
        claims.append(Claim("intact_deliveries", losses.delivered, "==" if certain else ">=", source))
        return claims + self._outage_bounds

    @cached_property
    def _outage_bounds(self) -> list[Claim]:
        """Outages add neither traffic nor delay where packets keep their steps."""
        if not self.keeps_time:
            return []
        return [
            Claim(claim.name, claim.predicted, "<=", f"{claim.source}; less with outages")
            for claim in self.claims()
            if claim.relation == "==" and claim.name in ("steps", "segments")
        ]

    def _count(self, outages: Outages) -> int:
        """Nodes and links that are out of service; a node stands for its links, and a link counts once."""
        links = set()
        for sender, port in outages.links:
            peer = self.topology.neighbour(sender, port)
            if sender not in outages.nodes and peer not in outages.nodes:
                links.add(min((sender, port), (peer, self.topology.reverse_port(port))))
        return len(outages.nodes) + len(links)

    def claims_with_faults(self, broken: int, altering: int, faulty: Collection[Rank]) -> list[Claim]:
        """What still holds when `broken` nodes and links lose, delay or repeat, and `altering` ones alter what they carry.

        `faulty` are the ranks with faults of their own. By majority, x copies bear c of the first and b of the second kind
        if c + 2b < x: more copies arrive right than wrong. Without altering ones, a copy is enough.
        """
        bound = min(self.tolerated_faults, self.spec.redundancy - 1) if altering else self.tolerated_faults
        if broken + 2 * altering > bound or not self._sources_live(faulty):
            return []
        source = f"{self.citation}: survives {self.tolerated_faults} faults"
        if altering:
            source += f"; by majority {self.spec.redundancy} copies bear {bound // 2} liars"
        return [Claim("delivery_ratio", 1.0, "==", source)]

    def claims_with_known_faults(self, faulty: Collection[Rank]) -> list[Claim]:
        """What holds when all that is broken is so from step 1 on for good and known to all; nothing, for most."""
        del faulty
        return []

    def _sources_live(self, crashed: Collection[Rank]) -> bool:
        """Whether what the run is about survives: no root, or a root that does not crash."""
        rootless = self.collective in (Collective.ALLGATHER, Collective.ALLTOALL)
        return rootless or self.spec.source not in crashed

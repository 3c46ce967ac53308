"""What an algorithm is: a local rule for every rank, the claims of its paper, and what both need to know.

An `Algorithm` is built once a process from a topology and a `Job`; it holds what all ranks may share because every rank
would compute the same (tables that depend on the network alone). A `Rule` is built once a rank and sees a `LocalView`.
It is called with what arrived in a step and answers with what shall leave in later steps. It has no clock, no socket,
and no way to another rank's state: everything it knows is its own address, the arithmetic of the topology, and what it
was sent.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from emunode.errors import ScenarioError
from emunode.model import EVERYBODY, Collective, Duplex, Job, Packet, PortModel, Rank, Send, Step
from emunode.payload import Payloads
from emunode.topology.base import Topology

Content = Callable[[Rank, Rank, int], bytes | None]
Value = int | float | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """One prediction: the metric `name` of a run stands in `relation` to `predicted`, says `source`.

    `name` is a key of the measurements (`coordinator.claims` lists them); `relation` is `==`, `<=` or `>=`, read
    "measured relation predicted".
    """

    name: str
    predicted: Value
    relation: str
    source: str


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

    def start(self) -> Iterable[Send]:
        """What this rank sends of its own accord, in order of steps; drawn lazily, so a long schedule costs nothing."""
        return ()

    @abstractmethod
    def receive(self, step: Step, packets: Sequence[Packet]) -> Iterable[Send]:
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
    answer_bytes: ClassVar[int] = 0
    """Size of what receivers answer, over one hop, under the name of what they answer with themselves as target; or 0."""
    citation: ClassVar[str]
    """The literature, with section, table or theorem."""

    pieces: int = 1
    """Pieces of each message."""

    def __init__(self, topology: Topology, job: Job) -> None:
        self.topology = topology
        self.job = job
        self.validate()
        self.payloads = Payloads(job.seed, job.message_bytes, self.pieces)

    def renew(self, job: Job) -> None:
        """Be the same algorithm for another run, whose job differs in nothing but its seed and what ranks know."""
        self.job = job
        self.payloads = Payloads(job.seed, job.message_bytes, self.pieces)
        self.__dict__.pop("content", None)

    def validate(self) -> None:
        """Refuse what this algorithm cannot do; subclasses add their own conditions and set `pieces`."""
        job = self.job
        if job.port_model not in self.port_models:
            allowed = ", ".join(self.port_models)
            raise ScenarioError("port_model", str(job.port_model), f"{self.name} is defined for: {allowed}")
        if job.duplex not in self.duplexes:
            raise ScenarioError(
                "duplex", str(job.duplex), f"{self.name} needs {' or '.join(self.duplexes)}-duplex links"
            )
        if job.redundancy > self.max_redundancy:
            most = self.max_redundancy
            allowed = "one tree" if most == 1 else f"1..{most} trees"
            raise ScenarioError("redundancy", job.redundancy, f"{self.name} carries each message on {allowed}")

    @property
    def max_redundancy(self) -> int:
        """Most trees that can carry one message; 1 for an algorithm without redundancy."""
        return 1

    @property
    def tolerated_faults(self) -> int:
        """Number of faulty nodes or links that leave every healthy rank served, by theory."""
        return 0

    @property
    def sources(self) -> range:
        """The ranks that start with something to send."""
        if self.collective in (Collective.BROADCAST, Collective.SCATTER):
            return range(self.job.source, self.job.source + 1)
        return self.topology.ranks()

    @property
    def target(self) -> Rank:
        """Target of every message that is meant for one rank or for all (broadcast, allgather, gather, reduce)."""
        return self.job.source if self.collective in (Collective.GATHER, Collective.REDUCE) else EVERYBODY

    @abstractmethod
    def rule(self, view: LocalView) -> Rule:
        """The rule of one rank."""

    def pieces_due(self, message: int) -> int:
        """Different pieces that a rank must have received to have `message` (of one origin; of all, in a reduce)."""
        del message
        return self.pieces

    @classmethod
    def auto_segments(cls, topology: Topology, job: Job, startup: float, per_byte: float) -> int:
        """The best number of segments by the paper's formula; ScenarioError where it has none."""
        raise ScenarioError("segments", "auto", f"{cls.name} has no formula for it; give a number")

    @cached_property
    def content(self) -> Content:
        """The right payload of (origin, target, segment), for the judge at its receiver; None: only the end can tell."""
        return self.payloads.piece

    @abstractmethod
    def claims(self) -> list[Claim]:
        """What holds when nothing breaks."""

    def cost_claims(self, startup: float, per_byte: float) -> list[Claim]:
        """What holds of virtual time, in seconds for one start-up and one byte, when nothing breaks.

        Here: a claim about start-ups and one of the same relation about the bytes that cost time are together one about T.
        """
        claims = []
        for relation in ("==", "<=", ">="):
            found = {claim.name: claim for claim in self.claims() if claim.relation == relation}
            startups, transferred = found.get("startups"), found.get("transfer_bytes")
            if startups is not None and transferred is not None:
                assert isinstance(startups.predicted, int)
                assert isinstance(transferred.predicted, int)
                seconds = startup * startups.predicted + per_byte * transferred.predicted
                claims.append(Claim("virtual_seconds", seconds, relation, startups.source))
        return claims

    def claims_under(self, crashed: Mapping[Rank, Step]) -> list[Claim]:
        """What still holds when ranks crash at the start of the given steps."""
        if len(crashed) > self.tolerated_faults or not self._sources_live(crashed):
            return []
        return [Claim("delivery_ratio", 1.0, "==", f"{self.citation}: survives {self.tolerated_faults} faults")]

    def claims_despite(self, broken: int, altering: int, faulty: Collection[Rank]) -> list[Claim]:
        """What still holds when `broken` nodes and links lose, delay or repeat, and `altering` ones alter what they carry.

        `faulty` are the ranks with faults of their own. By majority, x copies bear c of the first and b of the second kind
        if c + 2b < x: more copies arrive right than wrong. Without altering ones, a copy is enough.
        """
        bound = min(self.tolerated_faults, self.job.redundancy - 1) if altering else self.tolerated_faults
        if broken + 2 * altering > bound or not self._sources_live(faulty):
            return []
        source = f"{self.citation}: survives {self.tolerated_faults} faults"
        if altering:
            source += f"; by majority {self.job.redundancy} copies bear {bound // 2} liars"
        return [Claim("delivery_ratio", 1.0, "==", source)]

    def claims_around(self, faulty: Collection[Rank]) -> list[Claim]:
        """What holds when all that is broken is so from step 1 on for good and known to all; nothing, for most."""
        del faulty
        return []

    def _sources_live(self, crashed: Collection[Rank]) -> bool:
        """Whether what the run is about survives: no root, or a root that does not crash."""
        rootless = self.collective in (Collective.ALLGATHER, Collective.ALLTOALL)
        return rootless or self.job.source not in crashed

"""The interface of an algorithm: a local rule for every rank, and the claims of its paper.

An `Algorithm` is built once per process from a topology and a `CollectiveSpec`. It holds tables that depend on the network
alone; ranks may share them because every rank would compute the same. A `Rule` is built once per rank and sees a
`LocalView`. It receives the arrivals of a step and returns the sends of later steps. A rule has no clock, no socket and no
access to the state of other ranks: it knows its own address, the arithmetic of the topology, and what it received.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from functools import cached_property, partial
from itertools import product
from typing import ClassVar, Final, get_args

from emunode.algorithms.claims import Claim, Relation, UnknownMetricError
from emunode.algorithms.payload import Payloads
from emunode.algorithms.rule import LocalView, Rule
from emunode.algorithms.traits import (
    FORMER,
    Crosses,
    Dependence,
    ListedMessage,
    Need,
    Pipe,
    Timing,
    Traits,
    stated_traits,
)
from emunode.annexes import NUMBER_PAYLOADS, from_annex
from emunode.errors import RegistrationError, ScenarioError
from emunode.model import (
    ALL_RANKS,
    AUTOMATIC,
    FOLDING,
    OWN_CAPACITY,
    ROOTLESS,
    UNLIMITED,
    Collective,
    CollectiveSpec,
    Duplex,
    EvenParts,
    PortModel,
    Rank,
    Step,
)
from emunode.registry import Registry
from emunode.topologies.base import FAMILIES, CayleyTopology, Topology

# Plug-ins import the interface from here; its parts without an Algorithm have modules of their own.
__all__ = [
    "ALGORITHMS",
    "ANY_FAMILY",
    "Algorithm",
    "Content",
    "Crosses",
    "Dependence",
    "ListedMessage",
    "LocalView",
    "Need",
    "Pipe",
    "Rule",
    "Timing",
    "check_metrics",
    "with_target",
]

ANY_FAMILY: Final = "any"
ROW_BYTES: Final = 1000
"""Memory per rank and segment of a precomputed schedule. Measured: 500 to 1400 for trees and their routes."""
Content = Callable[[Rank, Rank, int], bytes | None]


class Algorithm(ABC):
    """One collective algorithm on one network. The docstrings of subclasses summarize the paper.

    It has four parts: what it states of itself, its rules, the payloads of its job, and its predictions. The constructor
    raises ScenarioError (exit status 2) for a job that the algorithm cannot do.

    >>> from emunode.algorithms.registry import make_algorithm
    >>> from emunode.model import Collective, CollectiveSpec
    >>> from emunode.topologies.registry import parse_topology
    >>> spec = CollectiveSpec("star:4", Collective.BROADCAST, "greedy-tree", source=0)
    >>> algorithm = make_algorithm(parse_topology("star:4"), spec)
    >>> algorithm.final_step, [(claim.name, claim.relation, claim.predicted) for claim in algorithm.claims()][:2]
    (4, [('steps', '==', 4), ('segments', '==', 23)])
    """

    family: ClassVar[str]
    """The family of topologies that it is for; "any" if it runs on every network."""
    name: ClassVar[str]
    collective: ClassVar[Collective]
    citation: ClassVar[str]
    """The literature, with section, table or theorem."""
    port_models: tuple[PortModel, ...] = (PortModel.ALL_PORT,)
    """The port models that it has a schedule for, the model of the paper first."""
    duplexes: tuple[Duplex, ...] = (Duplex.FULL, Duplex.HALF)
    """The kinds of links that it has a schedule for; nodes enforce half-duplex links."""
    link_capacity: int | None = None
    """Most segments in one packet, according to the paper; None if it sets no bound."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    """Its needs from the network and from the planning of a run."""
    timing: Timing = Timing.ON_ARRIVAL
    """The effect of late packets on its rules."""
    dependence = Dependence.UNSTATED
    """How sends depend on receipts.

    It decides which losses follow from the schedule of a run without faults.
    """
    traits: Traits = Traits()
    """Further facts about its runs; a class states each in an attribute of the same name."""

    def __init_subclass__(cls, **options: object) -> None:
        """Refuse members of earlier versions that nothing would ask for, and gather the traits."""
        super().__init_subclass__(**options)
        for name, replacement in FORMER.items():
            if name in vars(cls):
                raise RegistrationError(f"algorithm {cls.__module__}.{cls.__qualname__}: {name} is now {replacement}")
        cls.traits = stated_traits(cls)

    # --- the rules of a job ----------------------------------------------------------------------------------------

    def __init__(self, topology: Topology, spec: CollectiveSpec) -> None:
        self.topology = topology
        self.rooted = topology.seen_from(spec.source)
        """The network seen from the source: relative addresses have their links there."""
        self.spec = with_target(self.topology, spec)
        self.validate()
        # It may depend on the job.
        self.traits = stated_traits(self)
        if spec.link_capacity != OWN_CAPACITY:
            self.link_capacity = self._asked_capacity()
        self.use_payloads(self.make_payloads())

    def validate(self) -> None:
        """Refuse a job that this algorithm cannot do.

        Subclasses add conditions and set `segments_per_message`.
        """
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
            reason = f"{self.name} carries each message on {allowed}{self.why_no_more}"
            raise ScenarioError("redundancy", spec.redundancy, reason)

    def _asked_capacity(self) -> int | None:
        """Return the most segments in a packet, as the scenario asks.

        Raises ScenarioError if the model of the algorithm differs.
        """
        asked, own, limit = self.spec.link_capacity, self.link_capacity, self.spec.packet_limit
        if Need.OPEN_CAPACITY in self.needs:
            if asked == AUTOMATIC:
                # As many as one start-up covers: a larger packet costs as much as two.
                return max(1, limit // self.largest_segment_bytes) if limit else None
            return None if asked == UNLIMITED else asked
        if asked in (AUTOMATIC, UNLIMITED if own is None else own):
            return own
        reason = (
            f"{self.name} sets no bound: its packets hold all that its schedule sends at once; write auto or unlimited"
            if own is None
            else f"in the model of {self.name} a packet holds {own} segment{'s' * (own > 1)} ({self.citation}); write auto"
        )
        raise ScenarioError("link_capacity", "unlimited" if asked == UNLIMITED else asked, reason)

    def cut(self, parts: int = 1) -> None:
        """Cut every message into `parts` x `spec.segments` segments.

        Segments of less than a byte are refused.
        """
        spec = self.spec
        self.segments_per_message = spec.segments * parts
        unit = spec.element_bytes
        if spec.most_parts < parts:
            # Of a vector in blocks every block is a message, and cut again.
            cut, least = (
                (f"the vector of each rank into {spec.blocks} blocks, and each block", spec.blocks * parts)
                if spec.blocks > 1
                else ("each message", parts)
            )
            raise ScenarioError(
                "message_bytes",
                spec.contributed_bytes,
                f"{self.name} on {self.topology.name} cuts {cut} into {parts} parts: at least {least * unit} bytes",
            )
        if self.segments_per_message > spec.most_parts:
            raise ScenarioError(
                "segments",
                spec.segments,
                f"{self.name} cuts a message of {spec.least_message_bytes} bytes into at most "
                f"{spec.most_parts // parts} segments" + (f" for each of {parts} parts" if parts > 1 else ""),
            )

    @abstractmethod
    def rule(self, view: LocalView) -> Rule:
        """Return the rule of one rank."""

    interrupted: bool = False
    """Set when the run is to stop: a rule that waits for something gives up."""

    def compute_tables(self) -> None:
        """Compute the tables of a precomputed schedule now.

        Otherwise they are computed when the first rank asks for them.
        """
        if Need.TABLE in self.needs:
            # The first send of a source follows from the same tables as all others.
            next(iter(self.rule(LocalView(self.topology, self.sources[0])).start()), None)

    def close(self) -> None:  # noqa: B027  # most algorithms hold nothing
        """Release resources of rules outside this process.

        Called when a network is taken down.
        """

    # --- payloads ---------------------------------------------------------------------------------------------------

    segments_per_message: int = 1
    """Segments of each message, over all trees or routes."""

    @cached_property
    def sources(self) -> Sequence[Rank]:
        """The ranks that have messages of their own."""
        permutation = self.spec.permutation
        if permutation:
            return [rank for rank in self.topology.data_ranks if permutation[rank] != rank]
        if self.collective in (Collective.BROADCAST, Collective.SCATTER, Collective.UNICAST):
            return range(self.spec.source, self.spec.source + 1)
        return self.topology.data_ranks

    @property
    def block_owners(self) -> Sequence[Rank]:
        """The ranks that own a block of the result each.

        Contributions are folded there. By default it is one rank, or all ranks. An allreduce with one owner delivers its
        result whole: one message for each rank, folded at any rank.
        """
        if self.collective is Collective.REDUCE:
            return range(self.spec.source, self.spec.source + 1)
        return self.topology.data_ranks

    @property
    def result_folders(self) -> Sequence[Rank]:
        """The targets of partial results: here the owners of the blocks."""
        return self.block_owners

    @property
    def finishers(self) -> Sequence[Rank]:
        """The ranks that distribute results of an allreduce."""
        return self.block_owners

    def segments_due(self, message: int, receiver: Rank = ALL_RANKS) -> int:
        """Return how many segments make up `message` of one origin.

        Where contributions are folded, these are the partial results that `receiver` must receive for `message` of its
        own block. 0 if it receives a finished result instead.
        """
        del message, receiver
        return self.segments_per_message

    @property
    def largest_segment_bytes(self) -> int:
        """Size of the longest segment of a message, in bytes."""
        return self.spec.cut(self.segments_per_message).longest

    def make_payloads(self, kind: Callable[[int, int, int, Container[Rank]], Payloads] | None = None) -> Payloads:
        """Return the messages of this job.

        They are bytes, or real numbers where the job has them, or payloads of another `kind`.
        """
        spec, ranks = self.spec, self.topology.data_ranks
        short = ranks[len(ranks) - spec.short_blocks :]
        if kind is None and spec.numbers is not None:
            payloads_for = from_annex("--values", *NUMBER_PAYLOADS)
            kind = partial(payloads_for(spec.numbers), spec, ranks)
        kind = kind or Payloads
        # A range knows its members without listing them, however large the network is.
        return kind(
            spec.seed,
            spec.message_bytes,
            self.segments_per_message,
            short if isinstance(short, range) else frozenset(short),
        )

    def use_payloads(self, payloads: Payloads) -> None:
        """Take the messages of the run from `payloads`.

        Results of other payloads are forgotten.
        """
        self.payloads = payloads
        self.rules: dict[Rank, Rule] = {}
        """The rules of ranks in this process, by rank, where their results are asked for at the end."""
        self.__dict__.pop("content", None)

    @cached_property
    def content(self) -> Content:
        """The right payload of (origin, target, segment), for comparison by a receiver.

        None if it cannot be known yet.
        """
        return self.payloads.segment

    def contributions(self, rank: Rank, target: Rank, segment: int) -> list[bytes]:
        """Return a list with the contribution of `rank` to a segment of the block of `target`.

        The list is empty for a switch.
        """
        return [] if self.topology.is_switch(rank) else [self.payloads.operand(rank, target, segment)]

    # --- predictions ------------------------------------------------------------------------------------------------

    @abstractmethod
    def claims(self) -> list[Claim]:
        """Return the predictions for a run without faults."""

    def structure_claims(self) -> list[Claim]:
        """Return the predictions about the paths of messages in a run without faults.

        They are cheap to compute. `coordinator.results.structure` measures these metrics from the journal. Subclasses
        add the list to their `claims`.
        """
        return []

    def cost_claims(self, startup: float, per_byte: float) -> list[Claim]:
        """Return the predictions of virtual time, in seconds.

        A start-up takes `startup` seconds, and each byte `per_byte` seconds. Here a claim about start-ups and one about
        transferred bytes with the same relation are combined into a claim about T.
        """
        claims = []
        for relation in get_args(Relation):
            found = {claim.name: claim for claim in self.claims() if claim.relation == relation}
            startups, transferred = found.get("startups"), found.get("transfer_bytes")
            if startups is not None and transferred is not None:
                assert isinstance(startups.predicted, int)
                assert isinstance(transferred.predicted, int)
                seconds = startup * startups.predicted + per_byte * transferred.predicted
                proof = startups.proof if transferred.proof else ""
                claims.append(Claim("virtual_seconds", seconds, relation, startups.source, proof=proof))
        return claims

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        """Return the best number of segments by the formula of the paper.

        Raises ScenarioError if there is none.
        """
        raise ScenarioError("segments", "auto", f"{cls.name} has no formula for it; give a number")

    @cached_property
    def final_step(self) -> Step | None:
        """The last step of a run without faults, or an upper bound.

        None if no claim states one.
        """
        steps = [claim.predicted for claim in self.claims() if claim.name == "steps" and claim.relation != ">="]
        return min((int(step) for step in steps if not isinstance(step, tuple)), default=None)

    @property
    def max_redundancy(self) -> int:
        """The most trees that can carry one message.

        1 for an algorithm without redundancy.
        """
        return 1

    @property
    def why_no_more(self) -> str:
        """Why there are no more trees than `max_redundancy`.

        The text follows the number. It is empty where the name says it.
        """
        return ""

    @property
    def tolerated_faults(self) -> int:
        """Number of faulty nodes or links that leave every healthy rank served, by theory."""
        return self.spec.redundancy - 1 if self.traits.disjoint_paths else 0

    def claims_with_faults(self, broken: int, altering: int, faulty: Collection[Rank]) -> list[Claim]:
        """Return the predictions under faults.

        `broken` nodes and links lose, delay or repeat packets, and `altering` ones alter payloads. `faulty` contains the
        ranks with faults of their own. A majority of x copies tolerates c faults of the first and b of the second kind
        if c + 2b < x, because then more copies arrive right than wrong. Without alteration one copy is enough.
        """
        bound = min(self.tolerated_faults, self.spec.redundancy - 1) if altering else self.tolerated_faults
        traits = self.traits
        if traits.trees_per_link * (broken + 2 * altering) > bound or (faulty and not traits.survives_nodes):
            return []
        if not self.spec.sources_live(faulty):
            return []
        source = f"{self.citation}: survives {self.tolerated_faults} faults"
        if altering:
            source += f"; by majority {self.spec.redundancy} copies tolerate {bound // 2} byzantine nodes"
        return [Claim("delivery_ratio", 1.0, "==", source)]

    def claims_with_known_faults(self, faulty: Collection[Rank]) -> list[Claim]:
        """Return the predictions when every rank knows all faults.

        The faults last from step 1 to the end. Most algorithms have no such predictions.
        """
        del faulty
        return []

    @property
    def table_bytes(self) -> int:
        """Estimate of the memory that the tables of a process take.

        0 unless the schedule is precomputed. It is known before the tables are computed.
        """
        rows = self.topology.order * self.segments_per_message * self.spec.messages
        return ROW_BYTES * rows if Need.TABLE in self.needs else 0

    @property
    def least_hops(self) -> int:
        """Lower bound of the segments that cross links without faults.

        0 if unimportant. An algorithm states it if many more segments cross links than are delivered. It is used to
        estimate memory and time of a run, and is no claim.
        """
        return 0


def with_target(topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
    """Return `spec` with the default target of a unicast: the lowest of the farthest ranks that own data."""
    if spec.collective is not Collective.UNICAST or spec.target != ALL_RANKS or spec.permutation:
        return spec
    return spec._replace(target=topology.farthest_from(spec.source))


# --- what follows from an algorithm ----------------------------------------------------------------------------------


def renew(algorithm: Algorithm, spec: CollectiveSpec) -> None:
    """Reuse an algorithm for another run.

    The jobs may differ only in their seed and in the fault knowledge of ranks.
    """
    algorithm.spec = with_target(algorithm.topology, spec)
    algorithm.use_payloads(algorithm.make_payloads())


def goes_by_arrivals(algorithm: Algorithm) -> bool:
    """Report whether a rank forwards packets whenever they arrive, under the timed clock with faults.

    Folding and exchange algorithms need packets in their scheduled step.
    """
    late = algorithm.timing is not Timing.FIXED and algorithm.collective not in FOLDING
    return (
        late
        and not algorithm.traits.reads_steps
        and algorithm.spec.port_model in (PortModel.ALL_PORT, PortModel.ONE_PORT)
    )


def shortest_segment_bytes(algorithm: Algorithm) -> int:
    """Return the size of the shortest segment of a message, in bytes.

    Where blocks differ, this is about the shortest block.
    """
    spec = algorithm.spec
    return EvenParts(spec.most_parts, algorithm.segments_per_message, spec.element_bytes).shortest


def byte_relation(algorithm: Algorithm) -> Relation:
    """Return the relation of a claim that counts every segment as long as the longest one."""
    spec = algorithm.spec
    return "<=" if spec.short_blocks or spec.cut(algorithm.segments_per_message).longer else "=="


def receivers_by_distance(algorithm: Algorithm) -> tuple[int, ...]:
    """Return how many ranks that own data are at distance 1, 2, .. from the source."""
    topology, source = algorithm.topology, algorithm.spec.source
    if len(topology.data_ranks) == topology.order:
        return topology.distribution_from(source)[1:]
    counts = Counter(topology.distance(rank, source) for rank in topology.data_ranks)
    return tuple(counts[distance] for distance in range(1, max(counts) + 1))


def require_translations(algorithm: Algorithm) -> None:
    """Refuse a collective of all sources on a network where one timetable does not serve every source."""
    topology = algorithm.topology
    if algorithm.collective in ROOTLESS and not isinstance(topology, CayleyTopology):
        reason = f"{algorithm.name} runs one timetable at every source, so it needs a network with translations"
        raise ScenarioError("topology", topology.name, reason)


# --- registration ----------------------------------------------------------------------------------------------------


def check_metrics(entry: type[Algorithm]) -> None:
    """Raise RegistrationError for a claim about an unknown metric: no run would judge it.

    The claims are the claims on small networks of the algorithm's family, without faults and with one fault.
    """
    try:
        for topology, port_model, messages in product(_small_networks(entry), entry.port_models, (1, None)):
            spec = CollectiveSpec(topology.name, entry.collective, entry.name, 0, port_model, message_bytes=720)
            spec = spec._replace(messages=messages or topology.degree)  # some algorithms send one over each port
            try:
                algorithm = entry(topology, spec)
            except ScenarioError:
                continue
            algorithm.claims()
            algorithm.structure_claims()
            algorithm.cost_claims(1e-3, 1e-6)
            algorithm.claims_with_faults(1, 0, (topology.order - 1,))
    except UnknownMetricError as error:
        raise RegistrationError(f"algorithm {entry.__module__}.{entry.__qualname__} ({entry.name}): {error}") from None


def _small_networks(entry: type[Algorithm]) -> Iterator[Topology]:
    """Yield small networks that the algorithm is for.

    These are the two smallest of its family. An algorithm for any network has the smallest of every family.
    """
    anywhere = entry.family == ANY_FAMILY
    for family in FAMILIES.values() if anywhere else [FAMILIES[entry.family]]:
        networks = (family.parse(name.partition(":")[2]) for name in family.small_examples)
        yield from sorted(networks, key=lambda network: network.order)[: 1 if anywhere else 2]


def _check(entry: type[Algorithm]) -> None:
    # The package's own algorithms are checked by its tests: here that would add a tenth of a second to every command.
    if entry.__module__.startswith("emunode."):
        return
    if entry.family != ANY_FAMILY and entry.family not in FAMILIES:
        known = ", ".join((*FAMILIES, ANY_FAMILY))
        raise RegistrationError(f"algorithm {entry.name} is for an unknown family {entry.family!r}; known are: {known}")
    check_metrics(entry)


ALGORITHMS: Final = Registry[tuple[str, str, str], type[Algorithm]](
    "algorithm",
    Algorithm,
    key=lambda entry: (entry.family, entry.collective, entry.name),
    required=("family", "name", "collective", "citation"),
    check=_check,
    scope=lambda key: key[:2],
)
"""Every algorithm, by family, collective and name; the package declares its own in `emunode.algorithms.registry`."""

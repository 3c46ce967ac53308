"""The nodes that an engine runs, and the effect of faults on them.

A rank that crashes or hangs still reads the arrivals of the step before the fault, but sends nothing in answer. A rank that
hangs keeps its state and misses the steps of the hang. A rank that recovers starts without state, as if it had been
created in that step: of the sends of its rule it makes those of later steps; earlier ones are dropped.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b

from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.engine.known_paths import faults_by_steps
from emunode.engine.node import Node, classify, everyone_at, failure, port_of
from emunode.engine.protocol_node import ProtocolNode, make_node
from emunode.errors import RuleError
from emunode.faults.detection import StepDetection, Suspicion
from emunode.faults.kinds import FOREVER, Fault, NodeFault
from emunode.model import AGAIN_TREE, ALL_RANKS, FaultKnowledge, Hop, HopOutcome, Port, PortPacket, Rank, Step
from emunode.protocols.registry import make_protocol

AlteredCopy = tuple[Step, Rank, Port, Rank, int, int, int]
"""An altered copy that arrived: (step, receiver, its port, origin, tree, segment, a number that stands for its payload)."""
KeptResult = tuple[Rank, Rank, int, bytes]
"""(rank, owner of the block, segment, payload): a part of the result that a rank has at the end."""


class RankSet:
    """The nodes of `ranks`, run by one engine, and the faults in force."""

    def __init__(self, algorithm: Algorithm, ranks: Sequence[Rank]) -> None:
        spec = algorithm.spec
        self._algorithm = algorithm
        self._ranks = ranks
        self.nodes: dict[Rank, Node] = {}
        # Asked once: either all ranks have a protocol, of the same kind, or none has.
        sample = make_protocol(algorithm, LocalView(algorithm.topology, algorithm.sources[0]))
        self.has_protocol = sample is not None
        self.protocol_waits = sample is not None and sample.waits
        self._views: dict[Rank, LocalView] = {}
        # The step of the last `apply_faults`, for nodes that are created in it.
        self._step: Step = 1
        self._knows = spec.knows_neighbours
        self.notified: set[Rank] = set()
        """Ranks whose protocols were notified of a port in the last `apply_faults`."""
        # A dictionary is a set with an order. Protocols are notified in this order, and it decides what they send
        # first.
        self._pending_notifications: dict[tuple[Rank, Port], None] = {}
        """Ports of hanging ranks that the protocols of these ranks have to be notified of."""
        detects = spec.detection if spec.knowledge is FaultKnowledge.DETECT else None
        self.detection = detects and StepDetection(algorithm.topology, spec.seed, detects, ranks)
        self._agrees = spec.agreement is not None
        self._votes = spec.redundancy > 1
        self.faults = faults_by_steps(algorithm)

    def node(self, rank: Rank) -> Node:
        """Return the node of a rank, created on first use."""
        node = self.nodes.get(rank)
        if node is None:
            view = LocalView(self._algorithm.topology, rank)
            if self._knows or self.detection is not None:
                self._views[rank] = view
                # A node that is created in the middle of a run starts with the knowledge of that step.
                view.live_ports = self._live_ports(rank)
            node = self.nodes[rank] = self.create_node(view)
            if self.faults.timing_affected:
                node.enable_queueing()
        return node

    def _live_ports(self, rank: Rank) -> tuple[Port, ...]:
        """Return the ports that a rank believes to work in this step."""
        return self.detection.live_ports(rank) if self.detection else self.faults.live_ports(self._step, rank)

    def create_node(self, view: LocalView) -> Node:
        """Return a node in its initial state."""
        rule = make_rule(self._algorithm, view, self._step)
        protocol = make_protocol(self._algorithm, view) if self.has_protocol else None
        if protocol is None:
            return Node(view.rank, self._algorithm, rule)
        return make_node(view.rank, self._algorithm, rule, protocol, self._step)

    def apply_faults(
        self, step: Step, faults: Sequence[Fault], waking: AbstractSet[Rank]
    ) -> tuple[set[Rank], list[tuple[Rank, bool]]]:
        """Put faults into force at the beginning of `step`; the ranks in `waking` read or send in that step.

        Returns the ranks that still wake, and the ranks that fall silent, each of these with whether it has something to
        read first; `StepRunner.apply_faults` calls `deactivate` for these once they have read. Call this in every step
        from the first fault on.
        """
        state = self.faults
        # Ranks that were silent before these faults have read nothing to catch up with: a crash of a rank that hangs, or a
        # second hang, does not let it read again.
        struck = sorted({fault.rank for fault in faults if isinstance(fault, NodeFault) and fault.rank in self._ranks})
        already_silent = {rank for rank in (*waking, *struck) if state.silent(rank, step)}
        queueing, self._step = state.timing_affected, step
        state.apply(faults)
        # Nodes that exist start to queue when the first fault can make packets late; `node` does the same for later ones.
        if state.timing_affected and not queueing:
            for node in self.nodes.values():
                node.enable_queueing()
        # The fault knowledge of a rank can change only when a fault begins or ends.
        if self._knows and (faults or step in state.ends):
            for rank, view in self._views.items():
                view.live_ports = self._live_ports(rank)
        acting: set[Rank] = set()
        if self.detection is not None:
            # Packets that leave by a suspected port are withheld from now on.
            state.needs_filter = True
            acting = self._suspect(step, self.detection.advance(step, faults))
        # `silent` after `apply`: a rank that falls silent in this step does not wake in it.
        awake = {rank for rank in acting.union(waking) if not state.silent(rank, step)}
        for fault in faults:
            # A recovered rank starts afresh; `resume` drops sends of its rule in the steps that it missed.
            if not isinstance(fault, NodeFault) or not fault.revives:
                continue
            if fault.rank in self._ranks and not state.silent(fault.rank, step):
                self.node(fault.rank).resume(step)
                awake.add(fault.rank)
        silenced = [rank for rank in struck if state.silent(rank, step)]
        return awake, [(rank, rank in waking and rank not in already_silent) for rank in silenced]

    def _suspect(self, step: Step, changes: Iterable[Suspicion]) -> set[Rank]:
        """Tell ranks their suspicions from `step` on; return the ranks whose protocols act on them in this step."""
        acting = set()
        self.notified = set()
        places = {**self._pending_notifications, **{(change.rank, change.port): None for change in changes}}
        # A rank that hangs learns of a change when it runs again.
        self._pending_notifications = {place: None for place in places if step <= self.faults.hung_until(place[0])}
        for rank, port in places:
            if rank in self._views:
                self._views[rank].live_ports = self._live_ports(rank)
            silent = self.faults.silent(rank, step)
            # A rank that has nothing to send yet takes part in an agreement all the same.
            node = self.node(rank) if self._agrees and not silent else self.nodes.get(rank)
            if isinstance(node, ProtocolNode) and not silent:
                assert self.detection is not None
                node.suspects(step, port, self.detection.suspects(rank, port))
                node.note_due(step, step)
                self.notified.add(rank)
                if node.due is not None and node.due <= step:
                    acting.add(rank)
        return acting

    def deactivate(self, rank: Rank) -> Step | None:
        """Pause a hanging rank or remove a crashed one; return the next step when it sends, or None."""
        node = self.nodes.get(rank)
        if node is None:
            return None
        if rank in self.faults.crashed:
            # The state is lost with the node; a recovery creates a new one.
            del self.nodes[rank]
            self._views.pop(rank, None)
            return None
        until = self.faults.hung_until(rank)
        if until >= FOREVER:
            return None
        # Sends that fall into the hang are skipped, not made up for.
        node.resume(until + 1)
        return node.due

    def look(self, rank: Rank, inbox: Sequence[PortPacket]) -> list[Hop]:
        """Classify arrivals as the node of a rank will, and change nothing."""
        control: list[Hop] = []
        data = []
        for port, packet in sorted(inbox, key=port_of):
            # Segments of a repetition are not judged: that takes the decision of the step when they are read.
            others = tuple(each for each in packet if self.has_protocol and each[2] >= AGAIN_TREE)
            control += [Hop(port, HopOutcome.CONTROL, each) for each in others]
            data.append((port, tuple(each for each in packet if each not in others) if others else packet))
        node, algorithm = self.nodes.get(rank), self._algorithm
        hops: list[Hop] = []
        seen = {} if node is None else dict(node.seen)
        classify(data, rank, algorithm.content, everyone_at(algorithm, rank), seen, hops)
        return control + hops

    def altered_copies(self, step: Step, rank: Rank, hops: Sequence[Hop]) -> list[AlteredCopy]:
        """Return the altered copies among the arrivals at `rank` in `step`, where copies are voted on."""
        return altered_copies(step, rank, hops) if self._votes and self.faults.payload_altered else []


def make_rule(algorithm: Algorithm, view: LocalView, step: Step) -> Rule:
    """Return the rule of a rank that begins in `step`; RuleError if the code of the algorithm fails."""
    try:
        rule = algorithm.rule(view)
    except (RuleError, MemoryError):
        raise
    except Exception as error:
        raise failure(algorithm, view.rank, step, error) from error
    if algorithm.spec.keeps_results:
        # A rank that recovers replaces its rule, and begins without results.
        algorithm.rules[view.rank] = rule
    return rule


def results_of(algorithm: Algorithm) -> Iterator[KeptResult]:
    """Yield the parts of results that the ranks of this process have, in order of ranks; switches own no data."""
    for rank, rule in sorted(algorithm.rules.items()):
        if algorithm.topology.is_switch(rank):
            continue
        for owner, segment, payload in rule.results():
            yield rank, owner, segment, payload


def altered_copies(step: Step, rank: Rank, hops: Sequence[Hop]) -> list[AlteredCopy]:
    """Return the altered copies among the arrivals at `rank` in `step`."""
    return [
        (step, rank, port, origin, tree, index, _number(payload))
        for port, outcome, (origin, target, tree, index, payload) in hops
        # A relay has no vote: copies count at their targets.
        if outcome is HopOutcome.CORRUPT and target in (ALL_RANKS, rank)
    ]


def _number(payload: bytes) -> int:
    """Return a signed 64-bit hash of a payload."""
    # Votes only ask whether payloads are equal, so eight bytes stand for a payload of any size. `hash` would not do: it
    # differs between the processes that report copies of one run.
    return int.from_bytes(blake2b(payload, digest_size=8).digest(), signed=True)

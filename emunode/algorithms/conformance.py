"""Conformance suite for algorithms: the contract of a class, checked on small networks.

`check_algorithm` runs the local rules by the plainest possible loop, without an engine, for every port model and both kinds
of links. It checks that an algorithm

* refuses, with a ScenarioError, what it does not declare, and does what it declares;
* has local rules: they keep no state outside their slots, never send into the past, and keep to the port model, to the
  duplex of the links and to the link capacity;
* delivers the right payload, folds every contribution exactly once, and keeps every claim about a metric that is counted
  here. The structure of paths and virtual time are measured by the coordinator.

Every check raises a ContractError that names the algorithm, the step and the rank.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, product
from math import isclose
from operator import attrgetter
from typing import Final, NamedTuple

from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.algorithms.claims import Claim, Value
from emunode.algorithms.payload import Payloads
from emunode.errors import ContractError, ScenarioError
from emunode.model import (
    ALL_RANKS,
    FOLDING,
    Collective,
    CollectiveSpec,
    Duplex,
    Port,
    PortModel,
    Rank,
    Segment,
    Step,
)
from emunode.play import play
from emunode.topologies.base import Topology

STEP_LIMIT: Final = 10_000
"""Most steps of a run on a small network. An algorithm that has not ended by then does not end."""
ANY_JOB: Final = CollectiveSpec("", Collective.BROADCAST, "", 0)
VARIANTS: Final = (
    ANY_JOB,
    ANY_JOB._replace(messages=3, message_bytes=36, source=1),
    ANY_JOB._replace(messages=4, message_bytes=35, redundancy=2),
    ANY_JOB._replace(segments=2, message_bytes=37, packet_limit=16),
)
"""Several messages, segments and trees, segments of unequal size, and another source."""

Packets = Mapping[tuple[Rank, Port], Sequence[Segment]]
"""The packets of one step, by sender and port."""


OwnedSegment = tuple[Rank, Rank, Rank, int]
"""(receiver, owner of the message, origin, segment).

The owner is the origin, or of a partial result the receiver.
"""


class Transmission(NamedTuple):
    """One segment that crosses one link."""

    step: Step
    sender: Rank
    port: Port
    receiver: Rank
    segment: Segment


def check_algorithm(entry: type[Algorithm], topology: Topology) -> None:
    """Check an algorithm on one network, under every port model and both kinds of links.

    The `order` of the network should be below 100.
    """
    ran = 0
    for port_model, duplex, variant in product(PortModel, Duplex, VARIANTS):
        job = variant._replace(topology=topology.name, collective=entry.collective, algorithm=entry.name)
        if entry.collective is Collective.UNICAST:
            job = _with_targets(job, topology)
        ran += _check_variant(entry, topology, job._replace(port_model=port_model, duplex=duplex))
    if not ran:
        raise ContractError(f"{entry.name} refuses every job on {topology.name}")


def _with_targets(job: CollectiveSpec, topology: Topology) -> CollectiveSpec:
    """Return a unicast to the last node.

    With several messages, every node sends to the one before it.
    """
    ranks = topology.data_ranks
    if job.messages == 1:
        return job._replace(target=ranks[-1])
    before = dict(zip(ranks, [ranks[-1], *ranks[:-1]], strict=True))
    return job._replace(source=0, permutation=tuple(before.get(rank, rank) for rank in topology.ranks()))


def _check_variant(entry: type[Algorithm], topology: Topology, spec: CollectiveSpec) -> bool:
    """Run one variant, unless the algorithm refuses it.

    Returns whether it ran.
    """
    try:
        algorithm = entry(topology, spec)
    except ScenarioError as refusal:
        if refusal.field not in (*CollectiveSpec._fields, "topology"):
            raise ContractError(f"{entry.name} refuses {spec}, but blames {refusal.field!r}") from refusal
        return False
    if spec.port_model not in entry.port_models or spec.duplex not in algorithm.duplexes:
        raise ContractError(
            f"{entry.name} accepts {spec.port_model} and {spec.duplex}-duplex, which it does not declare"
        )
    if entry.collective in FOLDING:
        algorithm.use_payloads(algorithm.make_payloads(AddingPayloads))
    history = execute(algorithm)
    check_claims(algorithm, measure(algorithm, history))
    if entry.collective in FOLDING:
        _check_results(algorithm, history)
    return True


class AddingPayloads(Payloads):
    """Payloads that are folded by addition modulo a power of two.

    Sums show how often a contribution was folded. Exclusive or cannot tell three times from once.
    """

    def fold(self, one: int, other: int, owner: Rank, segment: int) -> int:
        return (one + other) % (1 << 8 * self.segment_bytes(owner, segment))


def _check_results(algorithm: Algorithm, history: Sequence[Transmission]) -> None:
    """Require the fold of all contributions, each once, at every rank that folds a block of the result.

    The expected value follows from the payloads alone, not from the transmissions.
    """
    payloads, owners = algorithm.payloads, algorithm.block_owners
    results: dict[tuple[Rank, int], int] = {}
    for hop in history:
        _, target, _, index, payload = hop.segment
        if target == hop.receiver:
            value = results.get((target, index), 0)
            results[target, index] = payloads.fold(value, int.from_bytes(payload), target, index)
    for (rank, index), value in sorted(results.items()):
        block = rank if len(owners) > 1 else owners[0]
        expected = 0
        for each in algorithm.topology.ranks():
            for payload in algorithm.contributions(each, block, index):
                expected = payloads.fold(expected, int.from_bytes(payload), block, index)
        result = value
        for payload in algorithm.contributions(rank, block, index):
            result = payloads.fold(result, int.from_bytes(payload), block, index)
        if result != expected:
            raise ContractError(
                f"{algorithm.name} on {algorithm.topology.name}: segment {index} of the result at rank {rank} does not "
                "have every contribution exactly once"
            )


# --- execution -------------------------------------------------------------------------------------------------------


def execute(algorithm: Algorithm) -> list[Transmission]:
    """Return all transmissions of a run without faults.

    Raises ContractError where a rule breaks the model.
    """
    return executed(algorithm)[0]


def executed(algorithm: Algorithm, *, last_port_first: bool = False) -> tuple[list[Transmission], Sequence[Rule]]:
    """Return all transmissions of a run without faults, and the rules in their last state.

    The rules are by rank. `last_port_first` lets ranks read the packets of a step by descending port. Errors as of
    `execute`.
    """
    loop = RuleLoop(algorithm, last_port_first=last_port_first)
    history = list(chain.from_iterable(play(loop, limit=STEP_LIMIT)))
    if loop.busy:
        raise ContractError(f"{algorithm.name} on {algorithm.topology.name} does not end")
    return history, loop.rules


class RuleLoop:
    """The rules of all ranks without nodes around them, and the packets on their way."""

    def __init__(self, algorithm: Algorithm, *, last_port_first: bool = False) -> None:
        self._algorithm = algorithm
        self._last_port_first = last_port_first
        # A schedule uses most links many times.
        self._end: LinkEndOf = cache(algorithm.topology.end)
        self.rules = [_local_rule(algorithm, rank) for rank in algorithm.topology.ranks()]
        self._agenda = _started(self.rules)
        self._arrived: Packets = {}

    @property
    def busy(self) -> bool:
        """Whether sends are planned, or packets unread."""
        return bool(self._agenda or self._arrived)

    def step(self, step: Step) -> list[Transmission]:
        """Return everything that is sent in a step.

        Raises ContractError where a rule breaks the model.
        """
        name, end = self._algorithm.name, self._end
        # A step is: read the arrivals of the step before, then send. So the order of the ranks cannot matter.
        for rank, inbox in sorted(_inboxes(end, self._arrived).items()):
            inbox.sort(key=lambda packet: packet[0], reverse=self._last_port_first)
            for when, port, made in self.rules[rank].receive(step - 1, inbox):
                if when < step:
                    raise ContractError(f"{name} at rank {rank}, step {step}: a send in step {when} is too late")
                self._agenda[when].append((rank, port, made))
        self._arrived = _packets(self._agenda.pop(step, ()))
        _check_ports(self._algorithm, step, self._arrived, end)
        return [
            Transmission(step, sender, port, receiver, segment)
            for (sender, port), segments in self._arrived.items()
            for receiver in (end(sender, port)[0],)
            for segment in segments
        ]


RuleSend = tuple[Rank, Port, Segment | Callable[[], Segment]]
LinkEndOf = Callable[[Rank, Port], tuple[Rank, Port]]
"""Returns the rank and its port at the other end of a link."""


def _local_rule(algorithm: Algorithm, rank: Rank) -> Rule:
    rule = algorithm.rule(LocalView(algorithm.topology, rank))
    if hasattr(rule, "__dict__"):
        raise ContractError(
            f"{type(rule).__name__} of {algorithm.name} has no __slots__: others could attach state to it"
        )
    return rule


def _started(rules: Sequence[Rule]) -> defaultdict[Step, list[RuleSend]]:
    """Return all sends that need no arrival, by step."""
    agenda: defaultdict[Step, list[RuleSend]] = defaultdict(list)
    for rank, rule in enumerate(rules):
        last = 1
        for step, port, segment in rule.start():
            if step < last:
                raise ContractError(f"{type(rule).__name__} at rank {rank} starts step {step} after step {last}")
            last = step
            agenda[step].append((rank, port, segment))
    return agenda


def _packets(sends: Iterable[RuleSend]) -> Packets:
    packets: defaultdict[tuple[Rank, Port], list[Segment]] = defaultdict(list)
    for rank, port, segment in sends:
        packets[rank, port].append(segment() if callable(segment) else segment)
    return packets


def _inboxes(end: LinkEndOf, packets: Packets) -> Mapping[Rank, list[tuple[Port, tuple[Segment, ...]]]]:
    inboxes: defaultdict[Rank, list[tuple[Port, tuple[Segment, ...]]]] = defaultdict(list)
    for (sender, port), segments in packets.items():
        receiver, its_port = end(sender, port)
        inboxes[receiver].append((its_port, tuple(segments)))
    return inboxes


def _check_ports(algorithm: Algorithm, step: Step, packets: Packets, end: LinkEndOf) -> None:
    """Hold the sends and receipts of one step against link capacity, port model and duplex."""
    topology, spec, capacity = algorithm.topology, algorithm.spec, algorithm.link_capacity
    sent: defaultdict[Rank, set[Port]] = defaultdict(set)
    received: defaultdict[Rank, set[Port]] = defaultdict(set)
    unrestricted = (spec.port_model, spec.duplex) == (PortModel.ALL_PORT, Duplex.FULL)
    for (rank, port), segments in packets.items():
        if port not in topology.ports(rank):
            raise ContractError(f"{algorithm.name} at rank {rank}, step {step}, port {port}: there is no such port")
        if capacity is not None and len(segments) > capacity:
            raise ContractError(
                f"{algorithm.name} at rank {rank}, step {step}, port {port}: {len(segments)} segments in a packet for "
                f"{capacity}"
            )
        if not unrestricted:
            sent[rank].add(port)
            receiver, its_port = end(rank, port)
            received[receiver].add(its_port)
    for rank in sorted(sent.keys() | received.keys()):
        if not keeps_port_model(spec, sent[rank], received[rank]):
            raise ContractError(
                f"{algorithm.name} at rank {rank}, step {step}: sends on ports {sorted(sent[rank])} and receives on "
                f"{sorted(received[rank])}, against {spec.port_model} over {spec.duplex}-duplex links"
            )


def keeps_port_model(spec: CollectiveSpec, sent: set[Port], received: set[Port]) -> bool:
    """Report whether a node may send and receive on these ports in one step."""
    if spec.duplex is Duplex.HALF and sent & received:
        return False
    match spec.port_model:
        case PortModel.ALL_PORT:
            return True
        case PortModel.ONE_PORT:
            return len(sent) <= 1 and len(received) <= 1
        case PortModel.EXCHANGE:
            return len(sent | received) <= 1
        case PortModel.SEND_OR_RECEIVE:
            return len(sent) + len(received) <= 1


# --- claims ----------------------------------------------------------------------------------------------------------


def check_claims(algorithm: Algorithm, metrics: Mapping[str, Value]) -> None:
    """Hold the claims against `metrics`.

    Claims about other metrics are left out, and so are negative controls.
    """
    if algorithm.traits.negative_control:
        return
    for claim in algorithm.claims():
        if claim.name in metrics and not _holds(claim, metrics[claim.name]):
            raise ContractError(
                f"{algorithm.name} on {algorithm.topology.name}, {algorithm.spec}: measured {claim.name} "
                f"{metrics[claim.name]}, predicted {claim.relation} {claim.predicted} ({claim.source})"
            )


def _holds(claim: Claim, measured: Value) -> bool:
    predicted = claim.predicted
    if isinstance(predicted, tuple) or isinstance(measured, tuple):
        return predicted == measured
    if isclose(predicted, measured, rel_tol=1e-9):
        return True
    return (claim.relation == "<=" and measured < predicted) or (claim.relation == ">=" and measured > predicted)


def measure(algorithm: Algorithm, history: Sequence[Transmission]) -> dict[str, Value]:
    """Return the metrics of a run.

    Raises ContractError for a payload that is wrong at its receiver.
    """
    return {**_traffic(algorithm, history), **_deliveries(algorithm, history)}


def _traffic(algorithm: Algorithm, history: Sequence[Transmission]) -> dict[str, Value]:
    """Return the metrics of everything that was sent."""
    steps = range(1, max((hop.step for hop in history), default=0) + 1)
    segments: defaultdict[tuple[Step, Rank, Port], int] = defaultdict(int)
    size: defaultdict[tuple[Step, Rank, Port], int] = defaultdict(int)
    for step, sender, port, _, segment in history:
        segments[step, sender, port] += 1
        size[step, sender, port] += len(segment[4])
    per_link: Counter[tuple[Rank, Port]] = Counter()
    for (_, sender, port), count in segments.items():
        per_link[sender, port] += count
    most_segments, most_bytes = _largest_by_step(segments, steps), _largest_by_step(size, steps)
    limit = algorithm.spec.packet_limit
    senders = Counter(step for step, _ in {(step, sender) for step, sender, _ in segments})
    return {
        "steps": len(steps),
        "packets": len(segments),
        "segments": len(history),
        "bytes": sum(size.values()),
        "links_used": len(per_link),
        "max_link_segments": max(per_link.values(), default=0),
        "max_link_segments_per_step": max(most_segments, default=0),
        "heaviest_link_segments_per_step": most_segments,
        "heaviest_link_bytes_per_step": most_bytes,
        "startups": sum(-(-each // limit) if limit else min(each, 1) for each in most_bytes),
        "transfer_bytes": sum(most_bytes),
        "senders_per_step": tuple(senders[step] for step in steps),
    }


def _largest_by_step(counts: Mapping[tuple[Step, Rank, Port], int], steps: range) -> tuple[int, ...]:
    largest: Counter[Step] = Counter()
    for (step, _, _), count in counts.items():
        largest[step] = max(largest[step], count)
    return tuple(largest[step] for step in steps)


def _deliveries(algorithm: Algorithm, history: Sequence[Transmission]) -> dict[str, Value]:
    """Return the metrics of arrivals: first receipts, complete messages, repetitions, and segments for other ranks."""
    first: dict[OwnedSegment, Step] = {}
    duplicates = relays = 0
    folds = algorithm.collective in FOLDING
    content = cache(algorithm.content)
    for step, _, _, receiver, (origin, target, _, index, payload) in sorted(history, key=attrgetter("step")):
        if content(origin, target, index) not in (payload, None):
            raise ContractError(f"{algorithm.name} at rank {receiver}, step {step}: wrong payload of {origin}, {index}")
        if target not in (receiver, ALL_RANKS) or algorithm.topology.is_switch(receiver):
            relays += 1
            continue
        # Where contributions are folded, a segment with a target is a partial result for a block of that target.
        owner = receiver if folds and target != ALL_RANKS else origin
        if receiver == origin or (receiver, owner, origin, index) in first:
            duplicates += 1
        else:
            first[receiver, owner, origin, index] = step
    receipts = {(step, receiver) for (receiver, _, _, _), step in first.items()}
    receivers = Counter(step for step, _ in receipts)
    last_receipts = {receiver: step for step, receiver in sorted(receipts)}
    whole = _whole_messages(algorithm, first)
    return {
        "deliveries": whole,
        "intact_deliveries": whole,
        "duplicates": duplicates,
        "relays": relays,
        "receivers_per_step": tuple(receivers[step] for step in range(1, max(receivers, default=0) + 1)),
        "average_receive_step": sum(last_receipts.values()) / max(1, len(last_receipts)),
    }


def _whole_messages(algorithm: Algorithm, received: Iterable[OwnedSegment]) -> int:
    """Return the messages that a rank received with every segment, or with every partial result."""
    got = Counter((receiver, owner, index // algorithm.segments_per_message) for receiver, owner, _, index in received)
    return sum(
        count == algorithm.segments_due(message, receiver if receiver == owner else ALL_RANKS)
        for (receiver, owner, message), count in got.items()
    )

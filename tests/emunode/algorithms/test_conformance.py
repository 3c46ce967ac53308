"""The conformance suite over the registry, on algorithms that break it, and beside the memory engine."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest

from emunode.algorithms.base import ANY_FAMILY, Algorithm, LocalView, Need, Rule
from emunode.algorithms.breadth_first import BreadthFirstBroadcast
from emunode.algorithms.claims import Claim
from emunode.algorithms.conformance import check_algorithm, execute
from emunode.algorithms.registry import registered
from emunode.algorithms.tree_collective import ForwardRule
from emunode.engine.memory import MemoryEngine
from emunode.errors import ContractError
from emunode.model import CollectiveSpec, Duplex, HopOutcome, PortModel, PortPacket, ScheduledSend, Step
from emunode.net.wire import ROW
from emunode.play import play
from emunode.topologies.registry import parse_topology
from tests.mutation_support import CASES, SMALL, examples

MORE = {"ej": ("ej:0+3", "ej:1+2^2")}
"""Networks beside the two smallest examples of a family: other kinds of alpha, and two dimensions."""
COUNTERS = ("improved-printed", "three-phase-restart", "three-phase-restart-own")
UNDEFINED = {("hypercube:2", "sbt-reflections"), *product(("ej:2+2", "ej:0+3"), COUNTERS)}
"""Combinations that a paper does not define: k < 2 reflections, and counters for other networks than b = a + 1."""


@pytest.mark.exhaustive(one_in=40)
@pytest.mark.parametrize(
    ("topology", "entry"),
    [
        pytest.param(name, entry, id=f"{name}-{entry.collective}-{entry.name}")
        for family, entry in registered()
        for name in (*examples(family, entry), *(() if entry.family == ANY_FAMILY else MORE.get(family, ())))
        if (name, entry.name) not in UNDEFINED and Need.SPECIAL_LINKS not in entry.needs
    ],
)
def test_every_registered_algorithm(topology: str, entry: type[Algorithm]) -> None:
    check_algorithm(entry, parse_topology(topology))


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize(
    ("family", "entry"),
    [pytest.param(family, entry, id=f"{family}-{entry.collective}-{entry.name}") for family, entry in CASES],
)
def test_memory_engine_sends_the_same_segments(family: str, entry: type[Algorithm]) -> None:
    topology = parse_topology(SMALL[family])
    spec = CollectiveSpec(topology.name, entry.collective, entry.name, 0, entry.port_models[0])
    algorithm = entry(topology, spec._replace(messages=topology.degree))
    rows = b"".join(play(MemoryEngine(algorithm)))
    expected = sorted(
        (step, sender, port, receiver, (origin, target, tree, index, len(payload)))
        for step, sender, port, receiver, (origin, target, tree, index, payload) in execute(algorithm)
    )
    found = sorted(
        (step, sender, port, receiver, (origin, target, tree, index, size))
        for step, sender, receiver, origin, target, index, size, tree, port, outcome in ROW.iter_unpack(rows)
        if outcome != HopOutcome.LOST
    )
    assert found == expected


# Algorithms that break the contract.


def check(**members: Any) -> None:
    """Check the breadth-first broadcast with other members."""
    check_algorithm(type("Wrong", (BreadthFirstBroadcast,), members), parse_topology("hypercube:3"))


def rule_class(**members: Any) -> Any:
    """Return a method `rule` that makes forward rules with other members."""
    kind = type("WrongRule", (ForwardRule,), {"__slots__": (), **members})
    return lambda algorithm, view: kind(algorithm, view)  # noqa: PLW0108  # a class would not become a method


def test_unchanged_algorithm_passes() -> None:
    check()


def test_wrong_claim_is_rejected() -> None:
    with pytest.raises(ContractError, match="measured steps 3, predicted == 7"):
        check(claims=lambda _: [Claim("steps", 7, "==", "a paper")])


@pytest.mark.parametrize(("relation", "bound"), [("<=", 2), (">=", 4)])
def test_wrong_bound_is_rejected(relation: Any, bound: int) -> None:
    with pytest.raises(ContractError, match="measured steps 3"):
        check(claims=lambda _: [Claim("steps", bound, relation, "a paper")])


def test_port_model_violation_is_rejected() -> None:
    with pytest.raises(ContractError, match="against one-port over full-duplex links"):
        check(delays=lambda _self, _relative, _tree, ports: [1] * len(ports), claims=lambda _: [])


def test_accepting_an_undeclared_port_model_is_rejected() -> None:
    with pytest.raises(ContractError, match="accepts one-port and full-duplex, which it does not declare"):
        check(port_models=(PortModel.ALL_PORT,), validate=accept_everything, claims=lambda _: [])


def accept_everything(algorithm: BreadthFirstBroadcast) -> None:
    algorithm.trees = algorithm.make_trees(algorithm.topology)
    algorithm.duplexes = tuple(Duplex)


def test_algorithm_that_refuses_every_job_is_rejected() -> None:
    with pytest.raises(ContractError, match="refuses every job on hypercube:3"):
        check(port_models=())


def test_send_for_a_past_step_is_rejected() -> None:
    def receive(_self: Rule, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        return [(step - 1, 0, packets[0][1][0])]

    with pytest.raises(ContractError, match="is too late"):
        check(rule=rule_class(receive=receive))


def test_unordered_start_schedule_is_rejected() -> None:
    original = ForwardRule.start
    with pytest.raises(ContractError, match="starts step 1 after step"):
        check(rule=rule_class(start=lambda self: [(4, 0, (0, -1, 0, 0, b"")), *original(self)]))


def test_nonexistent_port_is_rejected() -> None:
    with pytest.raises(ContractError, match="there is no such port"):
        check(rule=rule_class(start=lambda _self: [(1, 3, (0, -1, 0, 0, b""))]))


def test_packet_above_link_capacity_is_rejected() -> None:
    original = ForwardRule.start
    with pytest.raises(ContractError, match="2 segments in a packet for 1"):
        check(rule=rule_class(start=lambda self: [each for each in original(self) for _ in range(2)]))


def test_wrong_payload_is_rejected() -> None:
    def receive(rule: ForwardRule, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        for when, port, segment in ForwardRule.receive(rule, step, packets):
            assert isinstance(segment, tuple)
            yield when, port, (*segment[:4], b"wrong")

    with pytest.raises(ContractError, match="wrong payload"):
        check(rule=rule_class(receive=receive))


def test_rule_without_slots_is_rejected() -> None:
    class Open(ForwardRule):
        pass

    def rule(algorithm: BreadthFirstBroadcast, view: LocalView) -> Rule:
        return Open(algorithm, view)

    with pytest.raises(ContractError, match="has no __slots__"):
        check(rule=rule)


def test_endless_algorithm_is_rejected() -> None:
    def receive(_self: Rule, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        return [(step + 1, packets[0][0], packets[0][1][0])]

    with pytest.raises(ContractError, match="does not end"):
        check(rule=rule_class(receive=receive))

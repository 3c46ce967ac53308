"""The conformance suite on algorithms that break it; `tests/contract/execution.py` has all registered ones."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from emunode.algorithms.base import LocalView, Rule
from emunode.algorithms.breadth_first import BreadthFirstBroadcast
from emunode.algorithms.claims import Claim
from emunode.algorithms.conformance import check_algorithm
from emunode.algorithms.tree_collective import ForwardRule
from emunode.errors import ContractError
from emunode.model import Duplex, PortModel, PortPacket, ScheduledSend, Step
from emunode.topologies.registry import parse_topology

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

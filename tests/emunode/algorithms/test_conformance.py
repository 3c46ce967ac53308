"""The conformance suite on algorithms that break it; `tests/contract/execution.py` has all registered ones."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from emunode.algorithms.base import Rule
from emunode.algorithms.breadth_first import BreadthFirstBroadcast
from emunode.algorithms.claims import Claim
from emunode.algorithms.conformance import check_algorithm
from emunode.algorithms.tree_collective import ForwardRule
from emunode.errors import ContractError
from emunode.model import Duplex, PortModel, PortPacket, ScheduledSend, Step
from emunode.topologies.registry import parse_topology

CUBE = parse_topology("hypercube:3")


def rule_class(**members: Any) -> Any:
    """Return a method `rule` that makes forward rules with other members."""
    kind = type("WrongRule", (ForwardRule,), {"__slots__": (), **members})
    return lambda algorithm, view: kind(algorithm, view)  # noqa: PLW0108  # a class would not become a method


def claiming(steps: int, relation: Any) -> Any:
    """Return a method `claims` with one claim."""
    return lambda _: [Claim("steps", steps, relation, "a paper")]


def no_claims(_algorithm: BreadthFirstBroadcast) -> list[Claim]:
    """Claim nothing."""
    return []


def accept_everything(algorithm: BreadthFirstBroadcast) -> None:
    """Refuse no job."""
    algorithm.trees = algorithm.make_trees(algorithm.topology)
    algorithm.duplexes = tuple(Duplex)


def send_at_once(_rule: Rule, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
    """Send in the step before the receipt."""
    return [(step - 1, 0, packets[0][1][0])]


def send_for_ever(_rule: Rule, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
    """Send everything back."""
    return [(step + 1, packets[0][0], packets[0][1][0])]


def alter(rule: ForwardRule, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
    """Forward other bytes."""
    for when, port, segment in ForwardRule.receive(rule, step, packets):
        assert isinstance(segment, tuple)
        yield when, port, (*segment[:4], b"wrong")


class Open(ForwardRule):
    """A rule without slots."""


START = ForwardRule.start
SEGMENT = (0, -1, 0, 0, b"")
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "claim": ({"claims": claiming(7, "==")}, "measured steps 3, predicted == 7"),
    "upper bound": ({"claims": claiming(2, "<=")}, "measured steps 3"),
    "lower bound": ({"claims": claiming(4, ">=")}, "measured steps 3"),
    "sends on all ports at once": (
        {"delays": lambda _self, _relative, _tree, ports: [1] * len(ports), "claims": no_claims},
        "against one-port over full-duplex links"),
    "accepts an undeclared port model": (
        {"port_models": (PortModel.ALL_PORT,), "validate": accept_everything, "claims": no_claims},
        "accepts one-port and full-duplex, which it does not declare"),
    "refuses every job": ({"port_models": ()}, "refuses every job on hypercube:3"),
    "past step": ({"rule": rule_class(receive=send_at_once)}, "is too late"),
    "unordered start": (
        {"rule": rule_class(start=lambda self: [(4, 0, SEGMENT), *START(self)])}, "starts step 1 after step"),
    "no such port": ({"rule": rule_class(start=lambda _self: [(1, 3, SEGMENT)])}, "there is no such port"),
    "above the capacity": (
        {"rule": rule_class(start=lambda self: [each for each in START(self) for _ in range(2)])},
        "2 segments in a packet for 1"),
    "payload": ({"rule": rule_class(receive=alter)}, "wrong payload"),
    "no slots": ({"rule": lambda algorithm, view: Open(algorithm, view)}, "has no __slots__"),  # noqa: PLW0108  # as above
    "endless": ({"rule": rule_class(receive=send_for_ever)}, "does not end"),
}  # fmt: skip
"""Members of a broadcast that break the contract, and words of the error."""


@pytest.mark.parametrize(("members", "words"), WRONG.values(), ids=WRONG)
def test_what_breaks_the_contract_is_rejected(members: dict[str, Any], words: str) -> None:
    with pytest.raises(ContractError, match=words):
        check_algorithm(type("Wrong", (BreadthFirstBroadcast,), members), CUBE)


def test_unchanged_algorithm_passes() -> None:
    check_algorithm(type("Right", (BreadthFirstBroadcast,), {}), CUBE)

"""The bounds on stored scenarios: each names what is too much, and the largest allowed is not refused."""

import pytest

from coordinator.planning.bounds import MOST_FAULTS, MOST_MESSAGES, require_small, why_too_large
from emunode.errors import ScenarioError
from tests.helpers.scenarios import Case


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("hypercube:19 broadcast flood", "a network of 524288 nodes; at most 500000 are read"),
        ("complete:9000 broadcast flood", "a network of 80991000 link ends; at most 20000000 are read"),
        ("jellyfish:4096,32,1 broadcast flood", "a search of 536870912 steps for the diameter of the network"),
        (
            f"star:3 broadcast flood messages={MOST_MESSAGES // 6 // 4 + 1} segments=4",
            "20000016 copies of segments are due",
        ),
        ("hypercube:13 alltoall edt", "67108864 copies of segments are due"),
    ],
)
def test_what_is_too_much_is_named(given: str, reason: str) -> None:
    assert str(why_too_large(Case(given).scenario)).startswith(reason)


def test_faults_are_counted() -> None:
    faults = ("crash:231@1",) * MOST_FAULTS
    assert why_too_large(Case("star:3 broadcast flood", fault=faults).scenario) is None
    assert why_too_large(Case("star:3 broadcast flood", fault=(*faults, "crash:231@1")).scenario) is not None


@pytest.mark.parametrize("given", ["hypercube:18 broadcast flood", "star:8 broadcast edt redundancy=7 segments=auto"])
def test_what_is_allowed_is_planned(given: str) -> None:
    require_small(Case(given).scenario, "order", "order.json")


def test_the_error_has_the_file() -> None:
    with pytest.raises(
        ScenarioError, match=r"invalid order 'order.json': its scenario asks for a network of 524288 nodes"
    ):
        require_small(Case("hypercube:19 broadcast flood").scenario, "order", "order.json")

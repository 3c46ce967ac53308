"""Numbers of survived sets and residual reliability, against values that were found by enumeration without this program."""

from math import comb

import pytest

from coordinator.campaigns.grid import Grid
from coordinator.campaigns.residual import PROBABILITIES, Residual, residuals
from coordinator.campaigns.session import run_campaign
from coordinator.campaigns.store import FinishedTrials
from tests.helpers.command_line import fields


def residual_of(scenario: str, faults: str, trials: int) -> list[Residual]:
    store = FinishedTrials(Grid(fields(f"{scenario} driver=memory"), {}, [faults], trials, None, "exact"))
    run_campaign(store, 1, lambda *_: None)
    return residuals(store)


def test_survived_sets_of_three_trees_in_the_star_graph() -> None:
    """Sizes up to 4 bound the polynomial; the true values are those over all 2^23 sets."""
    [found] = residual_of("star:4 broadcast edt redundancy=3", "all:nodes=0..4", 8855)
    assert found.survived == {0: 1, 1: 23, 2: 253, 3: 1430, 4: 4891}
    assert (found.places, found.faults) == (23, "crashed nodes")
    for q, value in zip(PROBABILITIES, (0.9996864229, 0.9720041873, 0.8530133825), strict=True):
        low, high = found.reliability(q)
        assert low < value < high
        rest = sum(comb(23, k) * float(q) ** k * (1 - float(q)) ** (23 - k) for k in range(5, 24))
        assert high - low == pytest.approx(rest)


def test_reliability_over_all_sets_of_links_is_exact() -> None:
    [found] = residual_of("hypercube:3 broadcast nesbt redundancy=3", "all:links=0..12", 1000)
    assert [found.survived[k] for k in (2, 3, 4)] == [66, 148, 141]
    for q, value in zip(PROBABILITIES, (0.9999308900, 0.9926864664, 0.9527674248), strict=True):
        low, high = found.reliability(q)
        assert low == high == pytest.approx(value, abs=1e-10)


def test_samples_and_losses_have_no_residual_sets() -> None:
    assert not residual_of("star:4 broadcast edt redundancy=3", "all:nodes=3", 100)
    assert not residual_of("star:4 broadcast edt redundancy=3", "all:loss=1:0.5", 100)

"""Grids: what a campaign runs, decided from what is finished; and intervals."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.campaign.grid import CHUNK, Done, Grid, Key, half_width, mean_interval, wilson
from emunode.errors import ScenarioError

STAR: Mapping[str, object] = {
    "topology": "star:4", "collective": "broadcast", "algorithm": "edt", "redundancy": 2, "driver": "memory",
}  # fmt: skip


def grid_of(*faults: str, vary: Mapping[str, list[object]] | None = None, **values: object) -> Grid:
    """A grid of broadcasts in S_4."""
    return Grid(STAR, vary or {}, list(faults), **values)  # type: ignore[arg-type]


def test_every_variant_meets_the_same_faults() -> None:
    grid = grid_of("nodes=0..2", "links=1", vary={"algorithm": ["edt", "greedy-tree"], "redundancy": [1, 2]}, trials=5)
    assert [variant.name for variant in grid.variants] == ["edt x=1", "edt x=2", "greedy-tree"]
    assert len(grid.left_out) == 1
    assert "greedy-tree carries each message on one tree" in grid.left_out[0]
    trials = dict(grid.rest({}))
    assert len(trials) == 3 * (1 + 5 + 5 + 5)  # with no faults there is one set
    for key, trial in trials.items():
        assert trial.faults == trials[key._replace(variant=0)].faults
        assert trial.variant == key.variant


def test_what_is_finished_is_not_run_again() -> None:
    grid = grid_of("nodes=1..2", trials=4)
    every = dict(grid.rest({}))
    done: Done = {(0, 0): {0: True, 2: None}, (1, 0): dict.fromkeys(range(4), False)}
    rest = dict(grid.rest(done))
    assert rest.keys() == {Key(0, 0, 1), Key(0, 0, 3)}
    assert all(every[key] == trial for key, trial in rest.items())
    assert not list(grid.rest({(0, 0): dict.fromkeys(range(4), True), (1, 0): dict.fromkeys(range(9), True)}))


def test_a_point_with_few_sets_goes_through_all_of_them() -> None:
    grid = grid_of("all:nodes=1", "all:nodes=2", trials=100)
    assert [grid.wanted(point, 0) for point in (0, 1)] == [23, 100]
    assert [grid.whole(point, 0) for point in (0, 1)] == [True, False]
    assert len({trial.faults for key, trial in grid.rest({}) if key.point == 0}) == 23


def test_a_campaign_goes_on_until_it_is_precise() -> None:
    grid = grid_of("nodes=2", vary={"redundancy": [1, 2]}, trials=1000, precision=0.1)
    done: dict[tuple[int, int], dict[int, bool | None]] = {(0, 0): {}, (0, 1): {}}
    rounds = 0
    while True:
        rest = list(grid.rest(done))
        if not rest:
            break
        rounds += 1
        assert len(rest) == 2 * CHUNK
        for key, _ in rest:
            done[key.point, key.variant][key.number] = key.variant == 0 or key.number % 2 == 0
    finished = len(done[0, 0])
    assert finished == len(done[0, 1]) == rounds * CHUNK
    assert half_width(done[0, 1].values()) <= 0.1 < half_width(done[0, 1][number] for number in range(finished - CHUNK))


def test_a_killed_round_is_finished_before_the_next() -> None:
    grid = grid_of("nodes=2", trials=1000, precision=0.01)
    done = {(0, 0): dict.fromkeys([*range(CHUNK), *range(CHUNK, CHUNK + 20), CHUNK + 30], True)}
    assert {key.number for key, _ in grid.rest(done)} == set(range(CHUNK + 20, 2 * CHUNK)) - {CHUNK + 30}


def test_chance_in_a_step_has_a_seed_in_each_draw() -> None:
    grid = grid_of("loss=2:0.5", "nodes=1", trials=3)
    seeds = {key: trial.seed for key, trial in grid.rest({})}
    assert [seeds[Key(0, 0, number)] for number in range(3)] == [0, 1, 2]
    assert [seeds[Key(1, 0, number)] for number in range(3)] == [0, 0, 0]


def test_the_fingerprint_is_of_what_a_trial_is() -> None:
    one = grid_of("nodes=1", trials=5).fingerprint
    assert one == grid_of("nodes=1", trials=50, precision=0.1).fingerprint
    assert one == grid_of("random:crash=1@1").fingerprint
    assert one != grid_of("nodes=2").fingerprint
    assert one != grid_of("nodes=1", vary={"redundancy": [1]}).fingerprint


@pytest.mark.parametrize(
    ("values", "field", "complaint"),
    [
        ({"trials": 0}, "trials", "a number from 1"),
        ({"precision": 0.0}, "precision", "half the width"),
        ({"precision": 1.5}, "precision", "half the width"),
        ({"vary": {"redundancy": []}}, "vary", "no trials"),
        ({"vary": {"fault": ["crash:2134@1"]}}, "vary", "--faults"),
        ({"vary": {"redundancy": [4, 5]}}, "vary", "leaves no trials"),
        ({"vary": {"algorithm": ["edt", "edx"]}}, "algorithm", "did you mean 'edt'"),
        ({"vary": {"gremlins": [1]}}, "scenario", "no such key"),
        ({"faults": []}, "faults", "at least one point"),
        ({"faults": ["nodes=24"]}, "faults", "23 may fail"),
        ({"faults": ["links=37"]}, "faults", "36 may fail"),
        ({"faults": ["all:links=9"]}, "faults", "more than 1,000,000 sets"),
    ],
)
def test_a_grid_that_will_not_do_is_refused(values: dict[str, object], field: str, complaint: str) -> None:
    with pytest.raises(ScenarioError, match=complaint) as raised:
        Grid(**{"base": STAR, "vary": {}, "faults": ["nodes=1"], **values}).check()  # type: ignore[arg-type]
    assert raised.value.field == field


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_the_interval_holds_the_share(successes: int, failures: int) -> None:
    trials = successes + failures
    low, high = wilson(successes, trials)
    assert 0 <= low <= high <= 1
    if trials:
        assert low - 1e-12 <= successes / trials <= high + 1e-12


def test_the_interval_of_wilson() -> None:
    """Newcombe 1998, table I: 81 of 263 has 0.2553 to 0.3662, and 0 of 20 has 0 to 0.1611."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)
    assert wilson(0, 0) == (0, 1)


def test_the_interval_of_a_mean() -> None:
    shares = [0.5, 0.7] * 50
    low, high = mean_interval(shares)
    assert (low + high) / 2 == pytest.approx(0.6)
    assert high - low == pytest.approx(2 * 1.959964 * 0.1005038 / 10, rel=1e-5)
    assert mean_interval([1.0] * 100) == wilson(100, 100)
    assert mean_interval([0.5] * 4) == wilson(2, 4)
    assert mean_interval([]) == (0, 1)


def test_the_grid_of_the_documentation_is_one() -> None:
    """The campaign whose figures docs/campaigns.md shows: six variants, nine points."""
    from coordinator.commands.campaign import make_grid
    from coordinator.scenario import read_scenario

    file = Path(__file__).parents[3] / "docs" / "delivery-star-5.toml"
    grid = make_grid(read_scenario(file), [], None, None, None)
    grid.check()
    names = [variant.name for variant in grid.variants]
    assert names == ["greedy-tree", "congestion2-trees", "edt x=1", "edt x=2", "edt x=3", "edt x=4"]
    assert [recipe.name for recipe in grid.points] == [f"nodes={count}" for count in range(9)]
    for figure in ("delivery", "guaranteed"):
        drawn = (file.parent / f"{figure}-star-5.svg").read_text()
        assert all(name in drawn for name in names)

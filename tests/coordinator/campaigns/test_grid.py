"""Grids: the trials of a campaign, resumed campaigns, and confidence intervals."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import comb, sqrt
from statistics import fmean, stdev

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.campaigns.counts import group_of
from coordinator.campaigns.grid import CHUNK, Done, Grid, Key
from coordinator.campaigns.session import run_campaign
from coordinator.campaigns.statistics import betting_interval, half_width, mean_interval, outside, sure_interval, wilson
from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.tables import rows
from coordinator.cli.campaign import CampaignCommand
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import read_scenario
from tests.helpers.command_line import ROOT, fields

STAR = fields("star:4 broadcast edt redundancy=2 driver=memory")


def grid_of(*faults: str, vary: Mapping[str, list[object]] | None = None, **values: object) -> Grid:
    """Return a grid of broadcasts in S_4."""
    return Grid(STAR, vary or {}, list(faults), **values)  # type: ignore[arg-type]


def test_every_variant_gets_the_same_faults() -> None:
    grid = grid_of("nodes=0..2", "links=1", vary={"algorithm": ["edt", "greedy-tree"], "redundancy": [1, 2]}, trials=5)
    assert [variant.name for variant in grid.variants] == ["edt x=1", "edt x=2", "greedy-tree"]
    assert len(grid.left_out) == 1
    assert "greedy-tree carries each message on one tree" in grid.left_out[0]
    trials = dict(grid.rest({}))
    assert len(trials) == 3 * (1 + 5 + 5 + 5)  # with no faults there is one set
    for key, trial in trials.items():
        assert trial.faults == trials[key._replace(variant=0)].faults
        assert trial.variant == key.variant


def test_finished_trials_are_not_run_again() -> None:
    grid = grid_of("nodes=1..2", trials=4)
    every = dict(grid.rest({}))
    done: Done = {(0, 0): {0: True, 2: None}, (1, 0): dict.fromkeys(range(4), False)}
    rest = dict(grid.rest(done))
    assert rest.keys() == {Key(0, 0, 1), Key(0, 0, 3)}
    assert all(every[key] == trial for key, trial in rest.items())
    assert not list(grid.rest({(0, 0): dict.fromkeys(range(4), True), (1, 0): dict.fromkeys(range(9), True)}))


RANDOM = "loss:1234~2134:0.5"


def test_trials_draw_the_losses_of_the_scenario_anew() -> None:
    """One tree sends each message over the lossy link: it arrives everywhere in half of the trials, else nowhere."""
    base = {**STAR, "redundancy": 1, "fault": [RANDOM]}
    for engine in ("messages", "exact"):
        store = FinishedTrials(Grid(base, {}, ["nodes=0"], trials=200, engine=engine))
        run_campaign(store, 1, lambda *_: None)
        (row,) = rows(store)
        assert (row["trials"], row["theory"], row["finding"]) == (200, 0.5, None)
        assert row["guaranteed_low"] < 0.5 < row["guaranteed_high"]  # type: ignore[operator]


def test_a_run_of_every_set_estimates_random_losses() -> None:
    for faults, more in (("all:loss=1:0.5", {}), ("all:nodes=1", {"fault": [RANDOM]})):
        store = FinishedTrials(Grid({**STAR, "redundancy": 1, **more}, {}, [faults], trials=100))
        run_campaign(store, 1, lambda *_: None)
        (row,) = rows(store)
        assert (row["trials"], row["finding"]) == (row["sets"], None)
        assert row["ratio_low"] < row["theory"] < row["ratio_high"]  # type: ignore[operator]
    assert grid_of("all:loss=1:1").is_random(grid_of("all:loss=1:1").points[0], 0) is False


def test_few_sets_are_enumerated() -> None:
    grid = grid_of("all:nodes=1", "all:nodes=2", trials=100)
    assert [grid.wanted(point, 0) for point in (0, 1)] == [23, 100]
    assert [grid.whole(point, 0) for point in (0, 1)] == [True, False]
    assert len({trial.faults for key, trial in grid.rest({}) if key.point == 0}) == 23


def test_many_sets_are_sampled() -> None:
    """A random sample without repetition. More trials extend the sample, and other finished sets are not counted."""
    grid, more = grid_of("all:nodes=2", trials=100), grid_of("all:nodes=2", trials=150)
    numbers = grid.numbers(0, 0)
    assert more.numbers(0, 0)[:100] == numbers != sorted(numbers)
    assert len(set(numbers)) == 100
    assert {key.number for key, _ in grid.rest({})} == set(numbers)
    done: Done = {(0, 0): dict.fromkeys(numbers, True)}
    assert {key.number for key, _ in more.rest(done)} == set(more.numbers(0, 0)[100:])
    first_in_order = set(range(100))
    assert set(grid.counted(0, 0, first_in_order)) == first_in_order.intersection(numbers)
    assert set(grid.counted(0, 0, set(range(253)))) == set(range(253)), "all there are"
    assert grid_of("all:nodes=2", trials=253).numbers(0, 0) == range(253)


@pytest.mark.parametrize(
    ("faults", "redundancies", "precision"), [("all:nodes=2", [2], 0.05), ("nodes=2", [1, 2], 0.1)]
)
def test_trials_are_added_until_the_result_is_precise(
    faults: str, redundancies: list[object], precision: float
) -> None:
    """The second variant delivers to all nodes in every other trial, the first one always."""
    grid = grid_of(
        faults, vary={"redundancy": redundancies}, trials=200 if precision < 0.1 else 1000, precision=precision
    )
    done: dict[tuple[int, int], dict[int, bool | None]] = {(0, variant): {} for variant in range(len(redundancies))}
    while rest := [key for key, _ in grid.rest(done)]:
        assert len(rest) == len(redundancies) * CHUNK
        for key in rest:
            done[key.point, key.variant][key.number] = key.variant == 0 or key.number % 2 == 0
    assert len({len(results) for results in done.values()}) == 1
    last = list(done[0, len(redundancies) - 1].values())
    assert half_width(last) <= precision < half_width(last[:-CHUNK])
    if faults.startswith("all:"):
        assert list(done[0, 0]) == grid.numbers(0, 0)[: len(last)]


@pytest.mark.parametrize("faults", ["nodes=3", "links=3", "all:nodes=1", "nodes=2;byzantine=1", "bernoulli:nodes=0.5"])
def test_draws_avoid_broken_places(faults: str) -> None:
    """The scenario breaks one node and one link. Every trial is valid and breaks other places."""
    given = ["crash:2134@1", "down:1234~3214@2-3"]
    grid = Grid({**STAR, "fault": given}, {}, [faults], 60)
    grid.check()
    trials = [trial for _, trial in grid.rest({})]
    assert trials
    for trial in trials:
        assert not any(":2134@" in spec or ":1234~3214@" in spec for spec in trial.faults)
        parse_faults((*given, *trial.faults), grid.variants[0].plan.topology)
    if faults == "all:nodes=1":
        assert len(trials) == 22


def test_a_killed_round_is_finished_before_the_next() -> None:
    grid = grid_of("nodes=2", trials=1000, precision=0.01)
    done = {(0, 0): dict.fromkeys([*range(CHUNK), *range(CHUNK, CHUNK + 20), CHUNK + 30], True)}
    assert {key.number for key, _ in grid.rest(done)} == set(range(CHUNK + 20, 2 * CHUNK)) - {CHUNK + 30}


def test_faults_with_random_steps_have_a_seed_per_draw() -> None:
    grid = grid_of("loss=2:0.5", "nodes=1", trials=3)
    seeds = {key: trial.seed for key, trial in grid.rest({})}
    assert [seeds[Key(0, 0, number)] for number in range(3)] == [0, 1, 2]
    assert [seeds[Key(1, 0, number)] for number in range(3)] == [0, 0, 0]


def test_fingerprint_covers_everything_that_decides_a_trial() -> None:
    one = grid_of("nodes=1", trials=5).fingerprint
    assert one == grid_of("nodes=1", trials=50, precision=0.1).fingerprint
    assert one == grid_of("random:crash=1@1").fingerprint
    assert one != grid_of("nodes=2").fingerprint
    assert one != grid_of("nodes=1", vary={"redundancy": [1]}).fingerprint


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_interval_contains_the_share(successes: int, failures: int) -> None:
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
    """Wilson's formula with the mean in place of the share."""
    shares = [0.5, 0.7] * 50
    assert mean_interval(sum(shares), 100) == pytest.approx(wilson(60, 100), rel=1e-12)
    assert mean_interval(100.0, 100) == pytest.approx((1 / (1 + 1.959964**2 / 100), 1))
    assert mean_interval(2.0, 4) == wilson(2, 4)
    assert mean_interval(0.0, 0) == (0, 1)


DISTRIBUTIONS: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
    "1 (97 %), 0.5": ([1, 0.5], [0.97, 0.03]),
    "1 (99 %), 0.3": ([1, 0.3], [0.99, 0.01]),
    "four values near 1": ([1, 0.99, 0.97, 0.93], [0.6, 0.2, 0.1, 0.1]),
    "six values 0.3 to 1": ([0.3, 0.6, 0.75, 0.85, 0.95, 1], [0.06, 0.1, 0.1, 0.24, 0.3, 0.2]),
    "0 or 1, p = .9": ([0, 1], [0.1, 0.9]),
}
"""Distributions of trial results."""
COVERAGE = [
    ("1 (97 %), 0.5", 100), ("1 (97 %), 0.5", 400), ("1 (99 %), 0.3", 100), ("1 (99 %), 0.3", 400), ("1 (99 %), 0.3", 2000),
    ("four values near 1", 400), ("six values 0.3 to 1", 400), ("0 or 1, p = .9", 400),
]  # fmt: skip
EXPERIMENTS = 20_000


def coverage(name: str, trials: int, interval: Callable[[Sequence[float]], tuple[float, float]]) -> float:
    """Return the share of experiments whose interval contains the known mean."""
    values, weights = DISTRIBUTIONS[name]
    mean = sum(value * weight for value, weight in zip(values, weights, strict=True))
    counts = numpy.random.default_rng(1).multinomial(trials, weights, EXPERIMENTS)
    held: dict[tuple[int, ...], bool] = {}  # few samples differ, so each is judged once
    for row in map(tuple, counts.tolist()):
        if row not in held:
            low, high = interval([value for value, count in zip(values, row, strict=True) for _ in range(count)])
            held[row] = low <= mean <= high
    return sum(held[row] for row in map(tuple, counts.tolist())) / EXPERIMENTS


@pytest.mark.parametrize(("name", "trials"), COVERAGE)
def test_interval_of_a_mean_covers_the_mean(name: str, trials: int) -> None:
    """At least 94 % of 20,000 experiments, in every row of the table in docs/explanation/campaigns.md."""
    assert coverage(name, trials, lambda shares: mean_interval(sum(shares), len(shares))) >= 0.94


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("name", "trials", "width"),
    [("four values near 1", 400, 0.015), ("six values 0.3 to 1", 400, 0.050), ("1 (99 %), 0.3", 2000, 0.008),
     ("0 or 1, p = .9", 400, 0.100)],
)  # fmt: skip
def test_the_betting_interval_covers_the_mean(name: str, trials: int, width: float) -> None:
    values, weights = DISTRIBUTIONS[name]
    mean = sum(value * weight for value, weight in zip(values, weights, strict=True))
    random, ends = numpy.random.default_rng(1), []
    for _ in range(200):
        groups: dict[int, Counter[float]] = {}
        for position, value in enumerate(random.choice(values, size=trials, p=weights).tolist()):
            groups.setdefault(group_of(position), Counter())[float(value)] += 1
        ends.append(betting_interval(list(groups.values())))
    assert sum(low <= mean <= high for low, high in ends) >= 0.95 * 200
    assert fmean(high - low for low, high in ends) == pytest.approx(width, abs=0.002)


def test_the_betting_interval_is_never_empty_and_shrinks() -> None:
    assert betting_interval([]) == (0, 1)
    low, high = betting_interval([{1.0: 16}])
    assert 0.5 < low < high == 1
    assert betting_interval([{1.0: 16}, {1.0: 1000}])[0] > low
    assert betting_interval([{0.0: 16}, {0.0: 1000}])[1] < 0.1


def test_the_simulation_finds_an_interval_that_does_not_cover() -> None:
    """The normal interval, used before, covers 79 % and 63 % where losses are rare."""

    def normal(shares: Sequence[float]) -> tuple[float, float]:
        margin = 1.959964 * stdev(shares) / sqrt(len(shares))
        return fmean(shares) - margin, fmean(shares) + margin

    assert coverage("1 (97 %), 0.5", 100, normal) == pytest.approx(0.792, abs=0.02)
    assert coverage("1 (99 %), 0.3", 100, normal) == pytest.approx(0.631, abs=0.02)


# --- findings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [30, 400])
@pytest.mark.parametrize("share", [0.0001, 0.01, 0.1, 0.5, 0.97, 0.9999])
def test_correct_share_is_rarely_excluded(share: float, trials: int) -> None:
    """By the binomial distribution, exactly: at most 1 in 10,000, however rare losses are."""
    excluded = sum(
        comb(trials, count) * share**count * (1 - share) ** (trials - count)
        for count in range(trials + 1)
        if outside(count / trials, trials, share)
    )
    assert excluded <= 1e-4


@given(st.floats(0, 1), st.integers(1, 10**6), st.floats(0, 1))
def test_the_interval_of_a_finding_is_what_is_not_excluded(mean: float, trials: int, predicted: float) -> None:
    low, high = sure_interval(mean, trials)
    assert 0 <= low <= mean <= high <= 1
    if not low <= predicted <= high:
        assert outside(mean, trials, predicted)
    if low + 3e-6 < predicted < high - 3e-6:
        assert not outside(mean, trials, predicted)


def test_impossible_prediction_is_always_excluded() -> None:
    assert outside(0.999999, 1, 1.0)
    assert outside(0.000001, 1, 0.0)
    assert not outside(1.0, 10**6, 1.0)
    assert not outside(0.0, 10**6, 0.0)
    assert outside(0.9, 1000, 0.96)
    assert not outside(0.95, 1000, 0.96)


def test_grid_of_the_documentation_is_valid() -> None:
    """The campaign whose figures docs/how-to/campaigns.md shows: six variants, nine points."""
    file = ROOT / "docs/how-to" / "delivery-star-5.toml"
    grid = CampaignCommand().grid_of(read_scenario(file))
    grid.check()
    names = [variant.name for variant in grid.variants]
    assert names == ["greedy-tree", "congestion2-trees", "edt x=1", "edt x=2", "edt x=3", "edt x=4"]
    assert [fault_set.name for fault_set in grid.points] == [f"nodes={count}" for count in range(9)]
    for figure in ("delivery", "guaranteed"):
        drawn = (file.parent / f"{figure}-star-5.svg").read_text()
        assert all(name in drawn for name in names)


def test_fingerprints_of_this_minor_version_stay_as_they_are() -> None:
    """The fingerprints of this minor version stay as they are."""
    grid = Grid(fields("star:4 broadcast edt"), {"redundancy": [1, 2]}, ("nodes=0..2",), 100)
    assert grid.fingerprint == "d01f39c00374c12c50ab21e44a7d990f"
    free = Grid(fields("star:4 broadcast edt startup=0"), {"redundancy": [1, 2]}, ("nodes=0..2",), 100)
    assert free.fingerprint == "00c772ca776c440e15f34e27872030de"

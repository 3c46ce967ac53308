"""Rates of findings: the exact interval of a Poisson mean, against a printed table and the distribution itself."""

import random

import pytest

from coordinator.campaigns.statistics import events_interval, findings_per_hour


@pytest.mark.parametrize(
    ("events", "low", "high"), [(0, 0, 3.689), (1, 0.0253, 5.572), (2, 0.2422, 7.225), (10, 4.795, 18.39)]
)
def test_intervals_are_the_printed_ones(events: int, low: float, high: float) -> None:
    assert events_interval(events) == pytest.approx((low, high), abs=5e-3)


def test_the_interval_covers_the_mean_often_enough() -> None:
    draw = random.Random(1)
    intervals = {number: events_interval(number) for number in range(40)}
    for mean in (0.5, 2.0, 7.5):
        covered = 0
        for _ in range(2000):
            events, time = 0, draw.expovariate(1.0)
            while time < mean:
                events, time = events + 1, time + draw.expovariate(1.0)
            low, high = intervals[events]
            covered += low <= mean <= high
        assert covered >= 0.94 * 2000


def test_a_search_without_findings_states_how_rare_they_are() -> None:
    line = findings_per_hour(0, 5400)
    assert line == "0 findings in 90.0 minutes of search: 0 per hour, 95 % interval 0 to 2.46"
    assert findings_per_hour(1, 1800).startswith("1 finding in 30.0 minutes of search: 2 per hour")
    assert findings_per_hour(0, 0) == "0 findings in 0.0 s of search"

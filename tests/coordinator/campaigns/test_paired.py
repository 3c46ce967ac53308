"""Paired differences of variants, and the intervals of latencies, against enumeration of all fault sets."""

from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from coordinator.campaigns.grid import Grid, Key
from coordinator.campaigns.paired import paired_rows
from coordinator.campaigns.session import run_campaign
from coordinator.campaigns.statistics import betting_interval, t_interval, t_quantile
from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.tables import CampaignRow, rows
from emunode.errors import ScenarioError
from tests.helpers.command_line import Call, fields
from tests.helpers.support import needs_png

BASE = fields("hypercube:3 broadcast sbt driver=memory")
VARY = {"algorithm": ["flood", "sbt"]}


def finished(faults: str, engine: str = "messages", trials: int = 100, **more: object) -> FinishedTrials:
    store = FinishedTrials(Grid({**BASE, **more}, VARY, [faults], trials, None, engine))
    run_campaign(store, 1, lambda *_: None)
    return store


def of(table: list[CampaignRow], figure: str) -> CampaignRow:
    [row] = [row for row in table if row["figure"] == figure]
    return row


@pytest.mark.parametrize("engine", ["messages", "auto"])
def test_differences_over_all_sets_are_the_enumerated_ones(engine: str) -> None:
    """Over every set of three crashes, the difference is that of the figures of both variants, set by set."""
    store = finished("all:nodes=3", engine)
    flood, sbt = rows(store)
    row = of(paired_rows(store), "delivery_ratio")
    assert row["algorithm"] == "sbt - flood"
    assert row["pairs"] == 35
    assert row["difference"] == pytest.approx(
        float(str(sbt["delivery_ratio"])) - float(str(flood["delivery_ratio"])), abs=1e-8
    )
    assert row["low"] == row["high"] == row["difference"]
    messages = finished("all:nodes=3")
    values = [[messages.findings[Key(0, at, number)][1] for number in range(35)] for at in (0, 1)]
    ratios = [[each.intact / each.expected for each in side] for side in values]
    different = [b - a for a, b in zip(*ratios, strict=True)]
    assert (row["larger"], row["smaller"]) == (sum(d > 0 for d in different), sum(d < 0 for d in different))
    both = [
        (a.latency_sums[2], b.latency_sums[2])
        for a, b in zip(*values, strict=True)
        if a.latency_sums[0] and b.latency_sums[0]
    ]
    longest = of(paired_rows(store), "max_latency")
    assert longest["pairs"] == len(both) < 35
    assert longest["difference"] == pytest.approx(np.mean([b - a for a, b in both]), abs=1e-8)


def test_intervals_cover_the_enumerated_difference() -> None:
    """Draws from the differences of all sets: the betting interval covers their mean as promised, and Student's nearly."""
    store = finished("all:nodes=3")
    results = [[store.findings[Key(0, at, number)][1] for number in range(35)] for at in (0, 1)]
    values = np.array([b.intact / b.expected - a.intact / a.expected for a, b in zip(*results, strict=True)])
    truth, random, n, times = values.mean(), np.random.default_rng(3), 100, 300
    covered = np.zeros(2)
    widths = np.zeros(2)
    for _ in range(times):
        drawn = random.choice(values, n)
        found, counts = np.unique(drawn, return_counts=True)
        groups = [dict(zip(((found + 1) / 2).tolist(), counts.tolist(), strict=True))]
        betting = [2 * end - 1 for end in betting_interval(groups)]
        student = t_interval(n, drawn.sum(), (drawn**2).sum())
        assert student is not None
        for at, (low, high) in enumerate((betting, student)):
            covered[at] += low <= truth <= high
            widths[at] += high - low
    assert covered[0] / times >= 0.95
    assert 0.91 <= covered[1] / times <= 0.99
    # Pairing is the point: independent samples of both variants vary more than their difference.
    assert widths[1] / times < 2 * 1.96 * np.sqrt(
        sum(np.var([r.intact / r.expected for r in side]) for side in results) / n
    )


def test_both_engines_give_the_same_differences() -> None:
    grid = {"topology": "star:4", "algorithm": "edt", "redundancy": 3}
    tables = []
    for engine in ("messages", "exact"):
        store = FinishedTrials(Grid({**BASE, **grid}, {"redundancy": [1, 2, 3]}, ["nodes=3"], 60, None, engine))
        run_campaign(store, 1, lambda *_: None)
        tables.append(paired_rows(store, "x=2"))
    assert tables[0] == tables[1]
    assert {row["redundancy" if "redundancy" in row else "algorithm"] for row in tables[0]} == {
        "x=1 - x=2",
        "x=3 - x=2",
    }


def test_variants_with_other_draws_are_not_paired() -> None:
    store = FinishedTrials(Grid(BASE, {"source": ["000", "111"]}, ["nodes=1"], 20, None, "messages"))
    run_campaign(store, 1, lambda *_: None)
    assert paired_rows(store) == []


@pytest.mark.parametrize(("vary", "baseline"), [({}, None), (VARY, "nesbt")])
def test_a_missing_variant_is_refused(vary: dict[str, list[str]], baseline: str | None) -> None:
    store = FinishedTrials(Grid(BASE, vary, ["nodes=1"], 5, None, "messages"))
    with pytest.raises(ScenarioError, match="paired"):
        paired_rows(store, baseline)


@pytest.mark.parametrize(
    ("freedom", "value"),
    [(1, 12.7062), (2, 4.30265), (5, 2.57058), (10, 2.22814), (30, 2.04227), (100, 1.98397), (1000, 1.96234)],
)
def test_quantiles_are_those_of_the_printed_tables(freedom: int, value: float) -> None:
    assert t_quantile(freedom) == pytest.approx(value, abs=2e-5 * value)
    assert t_quantile(10**6) == pytest.approx(NormalDist().inv_cdf(0.975))


def test_equal_values_have_no_interval() -> None:
    assert t_interval(50, 150, 450) is None
    assert t_interval(1, 3, 9) is None
    low, high = t_interval(4, 10, 30) or (0, 0)
    assert (low, high) == pytest.approx((2.5 - 3.18245 * 1.29099 / 2, 2.5 + 3.18245 * 1.29099 / 2), abs=1e-4)


@pytest.mark.parametrize("engine", ["messages", "exact"])
def test_latencies_have_the_interval_of_their_trials(engine: str) -> None:
    given = {**BASE, "topology": "star:4", "algorithm": "edt", "redundancy": 3}
    store, trials = (FinishedTrials(Grid(given, {}, ["nodes=4"], 80, None, kind)) for kind in (engine, "messages"))
    for each in (store, trials):
        run_campaign(each, 1, lambda *_: None)
    [row] = rows(store)
    longest = np.array([result.latency_sums[2] for _, result in trials.findings.values()])
    means = np.array([result.latency_sums[1] / result.latency_sums[0] for _, result in trials.findings.values()])
    for name, values, unit in (
        ("max_latency", longest, 1),
        ("stretch", longest, store.grid.fault_free_latency(0)),
        ("mean_latency", means, 1),
    ):
        margin = t_quantile(79) * values.std(ddof=1) / np.sqrt(80)
        expected = [values.mean() / unit, (values.mean() - margin) / unit, (values.mean() + margin) / unit]
        assert [row[name], row[f"{name}_low"], row[f"{name}_high"]] == pytest.approx(expected, abs=1e-7)


def test_no_algorithm_delivers_more_than_the_network_connects() -> None:
    """Flooding delivers what the network connects, set by set; a tree delivers less."""
    for faults in ("all:nodes=3", "all:links=3", "all:silent=2"):
        flood, sbt = rows(finished(faults, trials=300))
        assert flood["reachable"] == sbt["reachable"] == pytest.approx(flood["delivery_ratio"], abs=1e-9)
        assert sbt["delivery_ratio"] < sbt["reachable"]  # type: ignore[operator]


def test_reachability_is_empty_where_it_is_not_exact() -> None:
    for faults in ("nodes=1@2", "byzantine=1", "loss=2:0.5"):
        assert {row["reachable"] for row in rows(finished(faults, trials=5))} == {None}
    [row] = [row for row in rows(finished("nodes=2", trials=5)) if row["algorithm"] == "sbt"]
    assert row["fraction"] == pytest.approx(2 / 7, abs=1e-9)


@needs_png
def test_the_command_prints_pairs_and_papers_get_curves(call: Call) -> None:
    flags = "campaign --topology hypercube:3 --vary algorithm=flood,sbt --faults nodes=1..3 --trials 20 --workers 1 --paired"
    done = call(f"{flags} --json --out study")
    assert {row["figure"] for row in done.data["paired"]} == {"delivery_ratio", "max_latency"}
    printed = call(f"{flags} --out study")
    assert "paired differences: longest latency" in printed.out
    assert call("export study --figures figures --json").status == 0
    for name in (
        "delivery-ratio-over-the-share-of-crashed-nodes",
        "longest-latency-over-crashed-nodes",
        "stretch-over-crashed-nodes",
    ):
        assert "\\begin{axis}" in Path(f"figures/{name}.tex").read_text()
    tex = Path("figures/delivery-ratio-over-crashed-nodes.tex").read_text()
    assert "\\addlegendentry{reached by the network itself}" in tex

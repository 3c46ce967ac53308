"""Campaigns over failure processes, also under the timed clock: availability, completion times, and their intervals."""

from fractions import Fraction
from math import comb, inf
from pathlib import Path

import polars as pl
import pytest

import coordinator
from coordinator.campaigns.grid import Grid, Key
from coordinator.campaigns.process_figures import QUANTILES, order_statistics
from coordinator.execution.run import run
from coordinator.execution.sinks import MemorySink
from coordinator.planning.plan import make_plan
from coordinator.scenario.fault_syntax import parse_faults
from emunode.faults.kinds import FOREVER, Crash, Down, Fault, Recover
from tests.helpers.command_line import Call

TIMED = {"clock": "timed", "startup": "1ms", "per_byte": 0}
PROCESS = "process:nodes=mttf:12ms;links=mtbf:31ms;repair=mttr:1ms"


def net(name: str = "hypercube:3") -> coordinator.Network:
    return coordinator.network(name)


@pytest.mark.parametrize("trials", [1, 5, 20, 36, 59, 60, 140])
@pytest.mark.parametrize("share", QUANTILES)
def test_order_statistics_cover_a_quantile(trials: int, share: float) -> None:
    low, high = order_statistics(trials, share)
    p = Fraction(share)
    below = [comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]
    tail = Fraction(1, 40)
    # The quantile is below value number `low` if fewer than `low` values are below it.
    assert sum(below[:low]) <= tail < sum(below[: low + 1])
    if high:
        assert sum(below[high:]) <= tail < sum(below[high - 1 :])
    else:
        assert below[trials] > tail


def downtime(faults: list[Fault], end: int, *, steps: bool) -> tuple[int, int]:
    """Return the steps or nanoseconds before `end` when nodes, and links, are down."""
    nodes, links, crashed = 0, 0, dict[int, int]()
    for fault in faults:
        match fault:
            case Crash(step=step, rank=rank):
                crashed[rank] = step
            case Recover(step=step, rank=rank):
                nodes += step - crashed.pop(rank)
            case Down(step=step, last=last):
                links += (end if last == FOREVER else last + steps) - step
    # A link has a fault for each direction.
    return nodes + sum(end - step for step in crashed.values()), links // 2


@pytest.mark.parametrize("timed", [False, True])
def test_figures_of_a_campaign(timed: bool) -> None:
    process = PROCESS if timed else "process:nodes=mttf:12;links=mtbf:31;repair=mttr:2"
    done = coordinator.campaign(
        net(), "broadcast", "nesbt", redundancy=3, faults=process, trials=80, workers=1, driver="memory",
        **(TIMED if timed else {}),  # type: ignore[arg-type]
    )  # fmt: skip
    trials = done.trials
    topology, end = net().topology, 4_000_000 if timed else 5
    length = end if timed else end - 1
    shares: list[tuple[float, float]] = []
    times = []
    for trial in trials.iter_rows(named=True):
        faults = list(parse_faults(trial["faults"].split(), topology, timed=timed))
        nodes, links = downtime(faults, end, steps=not timed)
        shares.append((1 - nodes / (7 * length), 1 - links / (12 * length)))
        served = trial["intact"] == trial["expected"]
        longest = trial["seconds"] if timed else len(trial["latencies"].split()) - 1
        times.append(longest if served else inf)
    rows = {row["figure"]: row for row in done.processes.iter_rows(named=True)}
    assert list(rows) == ["availability of nodes", "availability of links", "completion"]
    for row, measured in zip(rows.values(), (*zip(*shares, strict=True), times), strict=True):
        values = sorted(measured)
        assert (row["trials"], row["q50"]) == (80, pytest.approx(values[39], abs=1e-9))
        low, high = order_statistics(80, 0.05)
        assert [row["q5_low"], row["q5_high"]] == pytest.approx([values[low - 1], values[high - 1]], abs=1e-9)
        if row["figure"] != "completion":
            assert row["mean"] == pytest.approx(sum(values) / 80, abs=1e-9)
            assert row["mean_low"] < row["expected"] < row["mean_high"]
    assert rows["completion"]["served"] == pytest.approx(sum(time < inf for time in times) / 80, abs=1e-9)
    assert {row["unit"] for row in rows.values()} == {"share", "seconds" if timed else "steps"}
    page = done.report().html
    assert "Availability and completion" in page
    assert "availability of links" in page


def test_availability_counts_trials_whose_source_failed() -> None:
    done = coordinator.campaign(
        net(), "broadcast", "sbt", faults="process:nodes=0.2;sources@1-3", trials=100, workers=1, driver="memory"
    )
    undecided = done.trials["undecided"].is_not_null().sum()
    nodes, completion = done.processes.iter_rows(named=True)
    assert undecided > 0
    assert (nodes["trials"], completion["trials"]) == (100, 100 - undecided)
    down = [
        downtime(list(parse_faults(each.split(), net().topology)), 4, steps=True)[0] for each in done.trials["faults"]
    ]
    assert nodes["mean"] == pytest.approx(1 - sum(down) / (100 * 8 * 3), abs=1e-9)


def test_a_timed_trial_is_the_run_with_its_faults() -> None:
    grid = Grid(
        {"topology": "star:4", "collective": "broadcast", "algorithm": "edt", "redundancy": 3, "driver": "memory",
         "messages": 2, **TIMED},
        {}, ["process:nodes=mttf:30ms;repair=mttr:2ms", "links=2@2ms"], trials=3,
    )  # fmt: skip
    grid.check()
    done = coordinator.campaign(
        net("star:4"), "broadcast", "edt", redundancy=3, messages=2, driver="memory", faults=list(grid.faults), trials=3,
        workers=1, **TIMED,  # type: ignore[arg-type]
    )  # fmt: skip
    found = {(row["point"], row["draw"]): row for row in done.trials.iter_rows(named=True)}
    for at, point in enumerate(grid.points):
        for number in range(3):
            trial, row = grid.trial(Key(at, 0, number)), found[point.name, number]
            scenario = grid.variants[0].scenario.model_copy(update={"fault": trial.faults})
            result = run(make_plan(scenario), MemorySink())
            assert row["journal_hash"] == result.summary["journal_hash"]
            if row["seconds"] is not None:
                timeline = result.conclusion.timeline
                assert timeline is not None
                first = result.journal.filter(pl.col("outcome") == "first").collect()
                healthy = [rank for rank in range(24) if rank not in result.conclusion.plan.judged.states]
                ends = first.join(timeline, on=["step", "sender", "port"]).filter(pl.col("receiver").is_in(healthy))
                assert row["seconds"] == ends["end"].max()


def test_a_timed_campaign_is_stored_resumed_and_printed(call: Call, tmp_path: Path) -> None:
    line = (
        "campaign --topology hypercube:3 --algorithm sbt --clock timed --startup 1ms --per-byte 0 --workers 1 "
        f"--faults '{PROCESS}' --out c"
    )
    first, again = call(f"{line} --trials 20"), call(f"{line} --trials 40")
    assert (first.status, again.status) == (0, 0)
    assert "20 trials run with messages" in again.out
    assert all(f"\n {name} " in again.out for name in ("nodes up", "links up", "completion"))
    assert len((tmp_path / "c" / "processes.csv").read_text().splitlines()) == 4

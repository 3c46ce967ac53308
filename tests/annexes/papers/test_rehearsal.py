"""The number of runs is known before the first one starts, and so is the time that is left."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from coordinator.annexes.papers.base import Reproduction, Section
from coordinator.annexes.papers.registry import REPRODUCTIONS, find_reproduction
from coordinator.annexes.papers.rehearsal import count_runs
from coordinator.annexes.papers.run_cache import RunCache, RunCount, open_run_cache
from coordinator.annexes.papers.tables import Table, compared
from coordinator.cli.invoke import main

BROADCAST = {"topology": "star:3", "collective": "broadcast", "algorithm": "greedy-tree"}


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize("name", [name for name in REPRODUCTIONS if name != "johnsson-ho-timed"])
def test_the_counted_runs_are_the_runs_that_are_made(name: str, run_cache: RunCache) -> None:
    """At the smallest size, scenario by scenario; results that would lead to other runs would show here."""
    about = find_reproduction(name)
    sizes = about.over(about.sizes[0] if about.sizes else None)
    counted = count_runs([(about, sizes)])
    made = replace(run_cache, sizes=sizes, requests=[])
    for _ in about.build(made):
        pass
    assert counted is not None
    requested = replace(made, trials={scenario: made.trials[scenario] for scenario in made.requests})
    assert {*counted} == {*requested.unique_trials()}
    assert len(counted) == requested.runs > 0
    assert all(seconds > 0 for seconds in counted.values())


def test_counting_makes_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.annexes.papers.run_cache.run", None)
    about = find_reproduction("johnsson-ho-timed")
    counted = count_runs([(about, [2])])
    assert counted is not None
    # SBT takes 120 cycles and nESBT 62, of 8 ms and 1,024 times 0.8 us each
    assert sum(counted.values()) == pytest.approx((120 + 62) * (0.008 + 1024 * 800e-9), abs=0.5)
    assert len(counted) == 2


def test_runs_that_follow_from_results_are_not_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(cache: RunCache) -> Iterator[Section]:
        steps = cache.run(**BROADCAST).series("receivers_per_step")
        trial = cache.run(f"star:{3 + steps[2]}", "broadcast", "greedy-tree")
        yield Table("a", [compared(4, trial.number("steps"), trial)])

    assert count_runs([(Reproduction("tried", "T", "P", "D", build), [])]) is None
    monkeypatch.setitem(REPRODUCTIONS._entries, "tried", Reproduction("tried", "T", "P", "D", build))
    assert main(["reproduce", "tried"]) == 0
    output = capsys.readouterr()
    assert "reproduce: the runs follow from results and cannot be counted" in output.err
    assert "2 runs, 0 results used again" in output.out


def test_progress_names_the_run_the_total_and_the_time_left() -> None:
    phases: list[str] = []
    with open_run_cache(lambda phase, *_: phases.append(phase)) as opened:
        cache = replace(opened, count=RunCount({"a": 30.0, "b": 30.0}))
        for seed in range(3):
            cache.run(**BROADCAST, seed=seed)
    assert any(re.match(r"run 2 of 2, 1 min left, star-3-broadcast-greedy-tree, ", phase) for phase in phases)
    assert any(phase.startswith("run 3, star-3") for phase in phases)


def test_the_time_left_follows_the_time_of_finished_runs() -> None:
    """100 runs of one second each; the machine takes twice as long, and ten runs are kept from before."""
    seconds = 0.0
    count = RunCount({str(number): 1.0 for number in range(100)}, lambda: seconds)
    assert count.position(1) == "run 1 of 100, 1 min 40 s left"
    for number in range(10):
        count.add(str(number), kept=True)
    assert count.position(11) == "run 11 of 100, 1 min 30 s left"
    for number in range(10, 55):
        count.add(str(number), kept=False)
        seconds += 2
    # one expected second counts beside the measured ones: 45 * (1 + 90) / (1 + 45) = 89
    assert count.position(56) == "run 56 of 100, 1 min 30 s left"
    for number in range(55, 99):
        count.add(str(number), kept=False)
        seconds += 2
    assert count.position(100) == "run 100 of 100, 2 s left"

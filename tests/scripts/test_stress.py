"""The frame of the stress tests: attempts that a busy machine prevented are neither successes nor problems."""

import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from emunode.algorithms.registry import algorithms
from emunode.model import Collective
from stress_tests import live, liveness
from stress_tests.__main__ import Parts, run_section, table
from stress_tests.common import Attempt, Attempts, Budget, Row, Usage, growth, lock_step_runs
from stress_tests.everywhere import Surroundings, chosen, compare, on_driver
from tests.helpers.command_line import ROOT, run_process

BUSY = "3: not reached: the machine is busy"


def attempt(number: int) -> Attempt:
    return Attempt([], Counter(), not_reached=(BUSY,) if number == 3 else ())


def test_attempts_that_were_not_reached_are_no_problem(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("kills")
    row.run_all(attempt, [1, 2, 3], processes=1)
    assert (row.tried, row.wrong, row.not_reached) == (3, [], [BUSY])
    assert f"kills: {BUSY}" in capsys.readouterr().err
    line, detail = table([row]).splitlines()
    assert "3 tried    0 wrong 1 not reached" in line
    assert detail.strip() == BUSY


def test_a_section_in_which_no_attempt_was_reached_is_wrong() -> None:
    row = Row("kills")
    row.run_all(attempt, [3, 3], processes=1)
    assert row.wrong == ["no attempt was reached"]


def noted(file: Path, number: int) -> Attempt:
    with file.open("a") as written:
        written.write(f"{number} ")
    return Attempt([f"{number} is wrong"], Counter({"x": 1}))


def test_a_section_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Attempts, "current", Attempts(tmp_path / "kills.attempts"))
    Row("kills").run_all(attempt, [1, 3], processes=1)
    with (tmp_path / "kills.attempts").open("a") as file:
        file.write('["kills", 2, []')
    again = Row("kills")
    made = tmp_path / "made"
    assert again.run_all(partial(noted, made), [1, 2, 3, 4], processes=1) == Counter({"x": 2})
    assert made.read_text() == "2 4 "
    assert (again.tried, again.wrong, again.not_reached) == (4, ["2 is wrong", "4 is wrong"], [BUSY])


def test_sections_that_have_ended_are_kept_by_seed(tmp_path: Path) -> None:
    parts = Parts(tmp_path, sample=True)
    assert parts.rows("kill", 1) is None
    row = Row("signals", 7, ["one"], note="exits")
    row.section, row.seconds = "kill", 3.5
    parts.keep("kill", 1, [row])
    assert Parts(tmp_path, sample=True).rows("kill", 1) == [row]
    assert "seed 1 at " in row.note
    assert parts.rows("kill", 2) is None
    with pytest.raises(SystemExit, match="with and without --sample"):
        Parts(tmp_path, sample=False)


def test_an_error_of_a_section_is_one_of_its_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_budget: Budget) -> Iterator[Row]:
        yield Row("first", 3)
        raise ValueError("no such file")

    monkeypatch.setattr(liveness, "run_section", fail)
    first, last = run_section("liveness", Budget(sample=True, seed=1, scratch=tmp_path))
    assert (first.tried, first.wrong, last.wrong) == (3, [], ["ValueError: no such file"])


def test_an_attempt_that_raises_does_not_end_the_others() -> None:
    row = Row("kills")
    row.run_all(divide, [0, 1], processes=1)
    assert row.wrong == ["attempt 0 ended with ZeroDivisionError: integer division or modulo by zero"]
    assert row.tried == 2


def divide(number: int) -> Attempt:
    return Attempt([], Counter(), 1 // number)


def test_only_what_grows_beyond_the_allowance_is_told() -> None:
    leaking = [Usage(rss=1000 + 10 * at, descriptors=9 - at, processes=1, objects=50 + at) for at in range(8)]
    (problem,) = growth(leaking, {"rss": 39, "descriptors": 0, "processes": 0, "objects": 4})
    assert problem.startswith("rss grew from 1,030 to 1,070;")
    assert growth(leaking[:3], {"rss": 0}) == [], "fewer than four samples"


def test_faults_that_end_leave_nothing_waiting(tmp_path: Path) -> None:
    """A sample of `scripts/stress liveness`."""
    budget = Budget(sample=True, seed=1, scratch=tmp_path)
    numbers = (1, 3, 4, 5, 10, 13, 17, 20, 25)
    made = [liveness.attempt(budget, timed, number) for number in numbers for timed in (False, True)]
    made += [liveness.by_hand(budget, number) for number in numbers]
    assert [problem for each in made for problem in each.wrong] == []
    # Of all numbers below 30, these have every kind of fault, and runs of both clocks that wait.
    seen = sum((each.counts for each in made), Counter[str]())
    assert {"crash", "down", "hang", "loss", "drop", "delay", "duplicate", "on hosts"} <= set(seen)
    assert (seen["promised"], seen["waiting"]) == (8, 2)


def test_restless_clients_change_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of `scripts/stress live`; another hash in the last event is a problem."""
    budget = Budget(sample=True, seed=1, scratch=tmp_path)
    made = [live.attempt(budget, number) for number in (0, 2)]
    assert [problem for each in made for problem in each.wrong] == []
    assert sum(each.counts["clicks"] for each in made)
    monkeypatch.setattr(live, "_hashes", lambda _: iter(["another"]))
    (problem,) = live.attempt(budget, 1).wrong
    assert "its reader was told ['another']" in problem


def test_joined_hosts_give_the_recorded_hash(tmp_path: Path) -> None:
    line, expected = lock_step_runs()[200]
    cases = [(line, expected), (line, "another")]
    budget = Budget(sample=True, seed=1, scratch=tmp_path)
    assert on_driver(budget, "join", cases, 0).wrong == []
    (problem,) = on_driver(budget, "join", cases, 1).wrong
    assert f"{expected}, recorded is another" in problem


def test_hashes_are_the_same_in_other_surroundings(tmp_path: Path) -> None:
    """A sample of `scripts/stress everywhere`."""
    row = Row("hashes")
    there = Surroundings("all", {"PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "LC_ALL": "POSIX", "PYTHONUTF8": "0"})
    cases = [case for case in chosen(6) if case[1].get("ranks_per_host") != 1]  # that is 24 processes
    line, more, expected = cases[0]
    compare(row, Path(sys.executable), there, [*cases, (line, more, "another")], tmp_path)
    assert row.wrong == [f"all: {line} {more or ''}: {expected}, recorded is another"]
    assert row.tried == len(cases) + 1


CASES = """
import sys
sys.path.insert(0, sys.argv[1])
from stress_tests.common import preload
from stress_tests.sizes import attempt, cases
preload()
for command, every in (("plan", 197), ("run", 389), ("sweep", 769), ("graph", 9)):
    chosen = cases(command)[5::every]
    for number in range(len(chosen)):
        result = attempt(None, chosen, number)
        print(result.wrong or "within the limits")
"""


def test_commands_on_the_largest_networks_keep_their_limits(tmp_path: Path) -> None:
    """A sample of `scripts/stress sizes`: finished or refused in 10 s of processor time and 2 GB."""
    done = run_process(tmp_path, [sys.executable, "-c", CASES, ROOT / "scripts"])
    lines = done.out.splitlines()
    assert len(lines) > 10
    assert set(lines) == {"within the limits"}


def test_every_algorithm_is_tried_with_every_command() -> None:
    from stress_tests.sizes import LARGEST, cases  # it imports the command line

    for command in ("plan", "run", "sweep"):
        named = {(case[2].partition(":")[0], case[6]) for case in cases(command)}
        expected = {
            (family, name)
            for family in {name.partition(":")[0] for name in LARGEST}
            for collective in Collective
            for name in algorithms(family, collective)
        }
        assert named == expected
    assert {case[1] for case in cases("graph")} == LARGEST

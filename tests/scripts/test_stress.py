"""The frame of the stress tests: attempts that a busy machine prevented are neither successes nor problems."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from emunode.algorithms.registry import algorithms
from emunode.model import Collective
from stress_tests.__main__ import table
from stress_tests.common import Attempt, Row
from stress_tests.everywhere import Surroundings, chosen, compare

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


def test_hashes_are_the_same_in_other_surroundings(tmp_path: Path) -> None:
    """A sample of `scripts/stress everywhere`."""
    row = Row("hashes")
    there = Surroundings("all", {"PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "LC_ALL": "POSIX", "PYTHONUTF8": "0"})
    cases = chosen(6)
    compare(row, Path(sys.executable), there, cases, tmp_path)
    assert (row.wrong, row.tried) == ([], len(cases))
    line, more, _ = cases[0]
    compare(row, Path(sys.executable), there, [(line, more, "another")], tmp_path)
    assert len(row.wrong) == 1


CASES = """
from stress_tests.common import preload
from stress_tests.sizes import attempt, cases
preload()
for command, every in (("plan", 197), ("run", 389), ("sweep", 769), ("graph", 9)):
    chosen = cases(command)[5::every]
    for number in range(len(chosen)):
        result = attempt(None, chosen, number)
        print(result.wrong or "within the limits")
"""


def test_commands_on_the_largest_networks_keep_their_limits() -> None:
    """A sample of `scripts/stress sizes`: finished or refused in 10 s of processor time and 2 GB."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CASES],
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'scripts'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
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

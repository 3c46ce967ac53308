"""The frame of the stress tests: attempts that a busy machine prevented are neither successes nor problems."""

from collections import Counter

import pytest

from stress_tests.__main__ import table
from stress_tests.common import Attempt, Row

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

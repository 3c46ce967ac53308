"""The list of checks that every algorithm has to pass.

A check is a function of a case, decorated with `check`. `tests/contract/test_algorithms.py` walks all cases of all checks.
`scripts/test` runs one in `one_in` of the cases of a check, `--all` runs all.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import pytest

from tests.contract.cases import CASES, AlgorithmCase


class Check(NamedTuple):
    """A check, its cases, and the share of them that is in the sample."""

    holds: Callable[[AlgorithmCase], None]
    cases: list[AlgorithmCase]
    one_in: int
    slow: bool

    @property
    def name(self) -> str:
        """The name of the check in tests."""
        return self.holds.__name__


CHECKS: Final[list[Check]] = []


def check(
    one_in: int, cases: Iterable[AlgorithmCase] = CASES, *, slow: bool = False
) -> Callable[[Callable[[AlgorithmCase], None]], Callable[[AlgorithmCase], None]]:
    """Add a function to the checks; `slow` ones run with `--all` only."""

    def add(function: Callable[[AlgorithmCase], None]) -> Callable[[AlgorithmCase], None]:
        CHECKS.append(Check(function, list(cases), one_in, slow))
        return function

    return add


def walk(checks: Iterable[Check]) -> Iterator[object]:
    """Yield the parameter sets `(check, case)`, by case: the checks of a case share its plan and its history."""
    members = {check.name: set(check.cases) for check in checks}
    always = {check.name: check.cases[len(check.cases) // 2] for check in checks}
    for case in dict.fromkeys(case for check in checks for case in check.cases):
        for check in checks:
            if case in members[check.name]:
                # One case of each check is always in the sample.
                sampled = () if case == always[check.name] else (pytest.mark.exhaustive(one_in=check.one_in),)
                marks = (pytest.mark.slow,) if check.slow else sampled
                yield pytest.param(check, case, id=f"{check.name}-{case.name}", marks=marks)

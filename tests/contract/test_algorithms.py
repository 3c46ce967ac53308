"""Every check of the contract on every algorithm, `scripts/test -k NAME_OF_CHECK` for one check."""

from collections import Counter
from importlib import import_module

import pytest

from emunode.algorithms.base import Need
from emunode.algorithms.registry import registered
from tests.contract import execution, histories, locality, losses  # noqa: F401  # they add their checks
from tests.contract.cases import CASES, ONCE, AlgorithmCase
from tests.contract.walk import CHECKS, Check, walk
from tests.helpers.command_line import ROOT

for path in sorted((ROOT / "tests" / "annexes").glob("*/contract.py")):  # so does an annex that has some
    import_module(f"tests.annexes.{path.parent.name}.contract")


@pytest.mark.parametrize(("check", "case"), list(walk(CHECKS)))
def test_contract(check: Check, case: AlgorithmCase) -> None:
    check.holds(case)


def test_the_walk_meets_every_algorithm() -> None:
    algorithms = {entry for _, entry in registered() if Need.SPECIAL_LINKS not in entry.needs}
    assert algorithms == {case.entry for case in CASES} == {case.entry for case in ONCE}


def test_every_check_is_in_the_sample_and_names_are_unique() -> None:
    params = list(walk(CHECKS))
    always = Counter(param.values[0].name for param in params if not param.marks)  # type: ignore[attr-defined]
    assert always == {check.name: 1 for check in CHECKS if not check.slow}
    names = [param.id for param in params]  # type: ignore[attr-defined]
    assert len(names) == len(set(names))

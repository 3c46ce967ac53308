"""Orders of operations: expressions that Open MPI 5.0.11 produced, and results that no order explains."""

from collections import defaultdict
from collections.abc import Mapping
from csv import DictReader
from functools import cache

import pytest

from coordinator.annexes.mpi.orders import (
    PROBE,
    TEXTS_COMMUTING,
    TEXTS_IN_ORDER,
    MissingResult,
    judge_order,
    parse_expression,
)
from coordinator.annexes.mpi.program import probe_numbers
from coordinator.annexes.mpi.records import CallReport, RankResult
from coordinator.annexes.mpi.rules.base import MPI_ALGORITHMS
from coordinator.annexes.numbers.fold_tree import FoldTree
from coordinator.annexes.numbers.probe import meetings_of
from coordinator.results.claims import Verdict
from tests.helpers.support import GOLDEN

Case = tuple[str, str, int, int]
NAMES = {(each.collective, each.number): each.name for each in MPI_ALGORITHMS.values()}


@cache
def golden_orders() -> Mapping[Case, Mapping[str, list[list[str]]]]:
    """Return the expressions of root 0: by collective, name and ranks, for each operation the elements of each rank."""
    found: dict[Case, dict[str, dict[str, list[str]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    with (GOLDEN / "mpi" / "openmpi-orders.csv").open() as file:
        for row in DictReader(file):
            number = int(row["algorithm"])
            if row["root"] != "0" or not number:
                continue
            text = "".join(str(ord(each) - ord("a")) if each.isalpha() else each for each in row["expression"])
            operation = TEXTS_COMMUTING if row["commutative"] == "1" else TEXTS_IN_ORDER
            case = (row["collective"], NAMES[row["collective"], number], int(row["P"]), number)
            found[case][operation][row["rank"]].append(text)
    return {
        case: {
            operation: list(ranks.values()) * (case[2] if "all" in ranks else 1) for operation, ranks in parts.items()
        }
        for case, parts in found.items()
    }


def sums_of(tree: FoldTree, ranks: int) -> list[float]:
    """Return the results of a probe whose contributions are added in this order."""
    meetings = meetings_of(tree)
    return [float(ranks - meetings[pair]) for pair in sorted(meetings)]


def report_of(columns: list[list[str]]) -> CallReport:
    """Return the report of a call with these texts on each rank."""
    return CallReport({}, tuple(RankResult(str(column), tuple(column)) for column in columns))


def probe_of(columns: list[list[str]], ranks: int) -> CallReport:
    """Return the report of a probe with the orders of these texts, one for each rank's worth of two elements."""
    results = []
    for column in columns:
        numbers = [value for text in column[::2] for value in sums_of(parse_expression(text, ranks), ranks)]
        results.append(RankResult(str(numbers), tuple(numbers)))
    return CallReport({}, tuple(results))


def reports_of(case: Case) -> dict[str, CallReport]:
    """Return the reports that would have led to the golden expressions."""
    parts = golden_orders()[case]
    return {
        TEXTS_COMMUTING: report_of(parts[TEXTS_COMMUTING]),
        TEXTS_IN_ORDER: report_of(parts[TEXTS_IN_ORDER]),
        PROBE: probe_of(parts[TEXTS_COMMUTING], case[2]),
    }


@pytest.mark.parametrize("collective", ["allreduce", "reduce", "reduce_scatter", "reduce_scatter_block"])
def test_golden_orders_are_judged_as_declared(collective: str) -> None:
    cases = [case for case in golden_orders() if case[0] == collective]
    assert len(cases) >= 20
    for case in cases:
        _, name, ranks, _ = case
        verdict = judge_order(collective, name, ranks, reports_of(case))
        keeps = MPI_ALGORITHMS[collective, name].keeps_order
        assert (verdict.same_bits, verdict.reasons.get("probe")) == (Verdict.HOLDS, None), case
        assert (verdict.rank_order is Verdict.HOLDS) is keeps, (case, verdict.reasons)


def test_the_ring_has_an_order_for_each_block() -> None:
    verdict = judge_order("allreduce", "ring", 4, reports_of(("allreduce", "ring", 4, 4)))
    assert list(verdict.trees.values()) == [2, 2, 2, 2]
    assert next(iter(verdict.trees)) == "(((0+1)+2)+3)"
    known = "element 2 is (((1+2)+3)+0): known of Open MPI 5"
    assert (verdict.verdict, verdict.reasons["rank_order"]) == (Verdict.VIOLATED, known)


def test_ranks_that_add_differently_have_other_bits() -> None:
    columns = [["((0+1)+2)"], ["((0+1)+2)"], ["(0+(1+2))"]]
    reports = {TEXTS_COMMUTING: report_of(columns), TEXTS_IN_ORDER: report_of(columns), PROBE: probe_of(columns, 3)}
    verdict = judge_order("allreduce", "ring", 3, reports)
    assert (verdict.same_bits, verdict.rank_order) == (Verdict.VIOLATED, Verdict.HOLDS)
    assert verdict.reasons["same_bits_on_all_ranks"] == "element 0: rank 0 has ((0+1)+2), rank 2 has (0+(1+2))"


def test_sums_in_another_order_than_texts_are_named() -> None:
    texts, sums = [["((0+1)+2)"]] * 3, [["(0+(1+2))"]] * 3
    reports = {TEXTS_COMMUTING: report_of(texts), TEXTS_IN_ORDER: report_of(texts), PROBE: probe_of(sums, 3)}
    assert judge_order("allreduce", "ring", 3, reports).reasons["probe"] == "sums are added in (0+(1+2))"


def test_missing_contributions_decide_nothing() -> None:
    reports = {TEXTS_COMMUTING: report_of([["(0+1)"]] * 3), TEXTS_IN_ORDER: report_of([["(0+1)"]] * 3)}
    verdict = judge_order("allreduce", "ring", 3, reports)
    assert (verdict.same_bits, verdict.rank_order) == (Verdict.UNDECIDED, Verdict.UNDECIDED)
    assert "is no order in which all 3 ranks are combined once" in verdict.reasons["rank_order"]
    assert judge_order("allreduce", "ring", 3, {}).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(
    "text", ["", "0", "((0+1)+2", "(0+1)+2", "((0+1)+2))", "((0+1)+3)", "((0+1)+1)", "x", "((0-1)+2)"]
)
def test_texts_that_are_no_order_are_refused(text: str) -> None:
    with pytest.raises(MissingResult):
        parse_expression(text, 3)


def test_the_numbers_of_a_probe_are_those_of_every_pair() -> None:
    assert probe_numbers(0, 3) == [2.0**60, 2.0**60, 1.0]
    assert probe_numbers(1, 3) == [-(2.0**60), 1.0, 2.0**60]
    assert probe_numbers(2, 3) == [1.0, -(2.0**60), -(2.0**60)]

"""The order of operations of a reduction, read from results alone: whose bits, in what order, and the same for all.

Three calls are made. A commuting operation on texts writes down every operation that was applied; one that does not commute
does the same, and MPI demands rank order of it; the sum of the numbers of a probe reveals the tree of the library's own
addition, where no program of ours takes part.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from coordinator.annexes.mpi.records import CallReport, RankResult
from coordinator.annexes.mpi.rules.base import MPI_ALGORITHMS, MpiCall
from coordinator.annexes.numbers.fold_tree import FoldTree
from coordinator.annexes.numbers.probe import probed_tree
from coordinator.results.claims import Verdict
from emunode.annexes.numbers.float_types import FLOAT64
from emunode.errors import ScenarioError
from emunode.model import Rounding

TEXTS_COMMUTING: Final = "texts-commuting"
TEXTS_IN_ORDER: Final = "texts-in-order"
PROBE: Final = "probe"
OPERATIONS: Final = (TEXTS_COMMUTING, TEXTS_IN_ORDER, PROBE)
REDUCTIONS: Final = ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block")
MOST_PROBED_RANKS: Final = 24
"""Most ranks of a probe: the numbers of more would no longer be swallowed."""
TEXTS_FOR_EACH_RANK: Final = 2
"""Elements of texts for each rank, so that every block has more than one."""


@dataclass(frozen=True)
class OrderVerdict:
    """The verdicts on the order of operations of one algorithm; texts of trees are over ranks."""

    collective: str
    algorithm: str
    ranks: int
    same_bits: Verdict
    """Whether all ranks with a result add in the same order, up to the order of two operands."""
    rank_order: Verdict
    """Whether an operation that does not commute is applied in the order of ranks, as MPI demands."""
    trees: Mapping[str, int] = field(default_factory=dict)
    """Number of elements that are reduced by each tree, in canonical order of operands, first trees first."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reasons of verdicts that do not hold."""

    @property
    def verdict(self) -> Verdict:
        """The worst of both."""
        found = {self.same_bits, self.rank_order}
        return next(each for each in (Verdict.VIOLATED, Verdict.UNDECIDED, Verdict.HOLDS) if each in found)

    def record(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "collective": self.collective,
            "algorithm": self.algorithm,
            "ranks": self.ranks,
            "same_bits_on_all_ranks": str(self.same_bits),
            "rank_order": str(self.rank_order),
            "trees": dict(self.trees),
            "reasons": dict(self.reasons),
        }


def elements_of(collective: str, ranks: int, operation: str) -> int:
    """Return the elements of a call whose order is measured, so that each block of a vector has the same number."""
    block = ranks * (ranks - 1) // 2 if operation == PROBE else TEXTS_FOR_EACH_RANK
    return block if collective == "reduce_scatter_block" else block * ranks


def order_call(collective: str, ranks: int, operation: str) -> MpiCall:
    """Return the call that measures the order of an operation."""
    elements = elements_of(collective, ranks, operation)
    return MpiCall(collective, ranks, elements=elements, commutative=operation != TEXTS_IN_ORDER)


def judge_order(collective: str, algorithm: str, ranks: int, reports: Mapping[str, CallReport]) -> OrderVerdict:
    """Judge the order of operations of an algorithm by the reports of the three calls; missing ones are undecided."""
    reasons: dict[str, str] = {}
    trees: dict[str, int] = {}
    try:
        same, trees = _same_bits(reports, ranks, reasons, shared=collective == "allreduce")
    except (MissingResult, ScenarioError) as error:
        same = Verdict.UNDECIDED
        reasons["same_bits_on_all_ranks"] = str(error)
    try:
        in_order = _rank_order(reports, ranks, reasons)
        declared = MPI_ALGORITHMS.get((collective, algorithm))
        if in_order is Verdict.VIOLATED and declared is not None and declared.keeps_order is False:
            reasons["rank_order"] += ": known of Open MPI 5"
    except (MissingResult, ScenarioError) as error:
        in_order = Verdict.UNDECIDED
        reasons["rank_order"] = str(error)
    return OrderVerdict(collective, algorithm, ranks, same, in_order, trees, reasons)


class MissingResult(Exception):  # noqa: N818  # the measured program gave none
    """A result that no order can be read from."""


def _same_bits(
    reports: Mapping[str, CallReport], ranks: int, reasons: dict[str, str], *, shared: bool
) -> tuple[Verdict, dict[str, int]]:
    """Compare the trees of all ranks if results are shared, and those of the texts with those of the probe."""
    results = _results(reports, TEXTS_COMMUTING)
    columns = [[parse_expression(str(text), ranks) for text in result.begin] for result in results]
    trees: dict[str, int] = {}
    for result in columns[:1] if shared else columns:
        for tree in result:
            trees[tree.canonical] = trees.get(tree.canonical, 0) + 1
    probed = {tree.canonical for result in _results(reports, PROBE) for tree in _probed(result, ranks)}
    if probed != set(trees):
        # Both are right: the library adds its own numbers in another order than it applies operations of a program.
        reasons["probe"] = f"sums are added in {', '.join(sorted(probed))}"
    if shared:
        for rank, column in enumerate(columns[1:], 1):
            for index, (one, other) in enumerate(zip(columns[0], column, strict=True)):
                if one.canonical != other.canonical:
                    reasons["same_bits_on_all_ranks"] = (
                        f"element {index}: rank 0 has {one.canonical}, rank {rank} has {other.canonical}"
                    )
                    return Verdict.VIOLATED, trees
        if len({result.digest for result in _results(reports, PROBE)}) > 1:
            reasons["same_bits_on_all_ranks"] = "the sums of the probe differ between ranks"
            return Verdict.VIOLATED, trees
    return Verdict.HOLDS, trees


def _rank_order(reports: Mapping[str, CallReport], ranks: int, reasons: dict[str, str]) -> Verdict:
    for result in _results(reports, TEXTS_IN_ORDER):
        for index, text in enumerate(result.begin):
            tree = parse_expression(str(text), ranks)
            if [rank for rank, _ in tree.leaf_depths()] != list(range(ranks)):
                reasons["rank_order"] = f"element {index} is {tree.text}"
                return Verdict.VIOLATED
    return Verdict.HOLDS


def _results(reports: Mapping[str, CallReport], operation: str) -> list[RankResult]:
    report = reports.get(operation)
    if report is None or report.error:
        raise MissingResult("not measured" if report is None else report.error)
    return [result for result in report.results if result is not None]


def _probed(result: RankResult, ranks: int) -> Iterator[FoldTree]:
    """Yield the trees of all blocks of one rank's sums."""
    length = ranks * (ranks - 1) // 2
    if not all(isinstance(value, int | float) for value in result.begin):
        raise MissingResult("the sums are not numbers")
    for first in range(0, len(result.begin), length):
        sums = np.array(result.begin[first : first + length], dtype=np.float64)
        yield probed_tree(sums, FLOAT64, Rounding.EACH, range(ranks))


def parse_expression(text: str, ranks: int) -> FoldTree:
    """Return the tree of a text such as `((0+1)+2)`; MissingResult if it is not one with every rank once."""
    # A stack of operands, so that a text of any depth is read without recursion.
    stack: list[FoldTree] = []
    number = ""
    for character in text:
        if character.isdigit() and len(number) < 4:
            number += character
            continue
        if number:
            stack.append(FoldTree(int(number)))
            number = ""
        if character == ")" and len(stack) > 1:
            right = stack.pop()
            stack.append(FoldTree.of(stack.pop(), right))
        elif character not in "(+":
            break
    if number:
        stack.append(FoldTree(int(number)))
    if len(stack) != 1 or stack[0].text != text or not stack[0].is_complete(range(ranks)):
        raise MissingResult(f"{text[:60]!r} is no order in which all {ranks} ranks are combined once")
    return stack[0]

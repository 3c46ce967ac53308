"""Rows of expected numbers of Johnsson and Ho, and the claims of algorithms to hold against them."""

import pytest

from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Value
from emunode.algorithms.registry import make_algorithm
from emunode.model import CollectiveSpec
from tests.helpers.hypercube_support import TREES, cube

Row = dict[str, str]
SIZES = [2, 3, 4, 5, 6]
LARGEST_IS_SLOW = [*SIZES[:-1], pytest.param(SIZES[-1], marks=pytest.mark.slow)]
PER_CYCLE = "per_cycle_max_measured"


def column(row: Row, prefix: str) -> str:
    """Return the value of the one column whose name begins so."""
    (name,) = (name for name in row if name.startswith(prefix))
    return row[name]


def predictions(algorithm: Algorithm) -> dict[str, Value]:
    """Return the claims of an algorithm with the relation `==`."""
    return {claim.name: claim.predicted for claim in algorithm.claims() if claim.relation == "=="}


def claimed(wanted: CollectiveSpec) -> dict[str, Value]:
    return predictions(make_algorithm(cube(wanted.topology), wanted))


def parts(graph: str, n: int) -> int:
    return TREES[graph] or n

"""How the algorithms of this bench on a complete network stand to the algorithms of Open MPI of the same name."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class BenchRelation(StrEnum):
    """Relation of two tables of messages and bytes."""

    EQUAL = "equal"
    MIRRORED = "mirrored"
    """Equal after every rank q is renamed to -q."""
    REVERSED = "equal messages, bytes by distance reversed"
    TOTALS = "equal in totals"


class BenchAlgorithm(NamedTuple):
    """An algorithm of this bench, and its relation to the one of the library."""

    collective: str
    algorithm: str
    relation: BenchRelation
    needs_power_of_two: bool = False


RELATIONS: Final[Mapping[tuple[str, str], BenchAlgorithm]] = {
    ("bcast", "binomial"): BenchAlgorithm("broadcast", "binomial", BenchRelation.EQUAL),
    ("allgather", "bruck"): BenchAlgorithm("allgather", "bruck", BenchRelation.EQUAL),
    ("allgather", "recursive_doubling"): BenchAlgorithm("allgather", "recursive-doubling", BenchRelation.EQUAL, True),
    ("allgather", "ring"): BenchAlgorithm("allgather", "ring", BenchRelation.MIRRORED),
    ("alltoall", "modified_bruck"): BenchAlgorithm("alltoall", "bruck", BenchRelation.EQUAL),
    ("allreduce", "recursive_doubling"): BenchAlgorithm("allreduce", "recursive-doubling", BenchRelation.EQUAL, True),
    ("allreduce", "ring"): BenchAlgorithm("allreduce", "ring", BenchRelation.TOTALS),
    ("allreduce", "rabenseifner"): BenchAlgorithm("allreduce", "recursive-halving", BenchRelation.REVERSED, True),
    ("reduce", "binomial"): BenchAlgorithm("reduce", "binomial", BenchRelation.TOTALS),
    ("reduce_scatter", "ring"): BenchAlgorithm("reduce-scatter", "ring", BenchRelation.EQUAL),
    ("reduce_scatter", "recursive_halving"): BenchAlgorithm(
        "reduce-scatter", "recursive-halving", BenchRelation.EQUAL, True
    ),
}
"""Relations by collective and algorithm of the library; an algorithm that is absent here is not in this bench."""


def relation_of(collective: str, algorithm: str) -> str:
    """Describe the relation of an algorithm to this bench; empty if this bench has none of the kind."""
    found = RELATIONS.get((collective, algorithm))
    if found is None:
        return ""
    ranks = ", P a power of two" if found.needs_power_of_two else ""
    return f"{found.relation} ({found.collective} {found.algorithm} on complete:P{ranks})"

"""Results of collectives by arithmetic, without any library: what each rank must hold after a call."""

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from coordinator.annexes.mpi.rules.base import MpiCall, split

MODULUS: Final = 65_521
REDUCING: Final = frozenset({"allreduce", "reduce", "reduce_scatter", "reduce_scatter_block"})

Vector = npt.NDArray[np.int32]


def contribution(rank: int, elements: int) -> Vector:
    """Return the contribution of a rank: `elements` numbers; all their sums fit into 32 bits."""
    index = np.arange(elements, dtype=np.int64)
    return ((rank * 1_000_003 + index * 7_919 + 12_345) % MODULUS).astype(np.int32)


def expected_results(call: MpiCall) -> Sequence[Vector | None]:
    """Return the result of each rank, None for ranks without a result."""
    if call.collective in REDUCING:
        return _sums(call)
    if call.collective in ("scan", "exscan"):
        return _partial_sums(call)
    return _moved(call)


def _moved(call: MpiCall) -> Sequence[Vector | None]:
    """Return the results of collectives that only move data."""
    ranks, n = range(call.ranks), call.elements
    results: Sequence[Vector | None] = [None for _ in ranks]
    match call.collective:
        case "bcast":
            results = [contribution(call.root, n) for _ in ranks]
        case "scatter":
            whole = contribution(call.root, n * call.ranks)
            results = [whole[rank * n : (rank + 1) * n] for rank in ranks]
        case "allgather" | "allgatherv" | "gather":
            whole = np.concatenate([contribution(rank, n) for rank in ranks])
            results = [whole if call.collective != "gather" or rank == call.root else None for rank in ranks]
        case "alltoall" | "alltoallv":
            rows = [contribution(rank, n * call.ranks) for rank in ranks]
            results = [np.concatenate([row[rank * n : (rank + 1) * n] for row in rows]) for rank in ranks]
    return results


def _partial_sums(call: MpiCall) -> Sequence[Vector | None]:
    own = [contribution(rank, call.elements) for rank in range(call.ranks)]
    inclusive: list[Vector] = [*np.cumsum(own, axis=0, dtype=np.int32)]
    return inclusive if call.collective == "scan" else [None, *inclusive[:-1]]


def _sums(call: MpiCall) -> Sequence[Vector | None]:
    is_block = call.collective == "reduce_scatter_block"
    n = call.elements * (call.ranks if is_block else 1)
    total: Vector = np.sum([contribution(rank, n) for rank in range(call.ranks)], axis=0, dtype=np.int32)
    if call.collective == "allreduce":
        return [total] * call.ranks
    if call.collective == "reduce":
        return [total if rank == call.root else None for rank in range(call.ranks)]
    lengths = [call.elements] * call.ranks if is_block else split(n, call.ranks)
    return np.split(total, np.cumsum(lengths)[:-1])


def digest_of(result: Vector) -> str:
    """Return the SHA-256 of a result in the byte order of this machine."""
    return hashlib.sha256(np.ascontiguousarray(result).tobytes()).hexdigest()

"""Settings that change the bits: the results of runs that differ in their varied fields, compared element by element."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from coordinator.annexes.numbers.compared import compared_results
from coordinator.campaigns.sweep import RunRecord
from coordinator.planning.plan import Plan
from coordinator.reports.tables import Row
from emunode.annexes.numbers.float_types import FLOAT_TYPES


def compared_bits(runs: Sequence[tuple[Plan, RunRecord]]) -> list[Row]:
    """Return the columns of runs that differ in their varied fields only; empty columns for runs without real numbers.

    `result` numbers the different results, from 1, by the elements that all of them have; `changed_percent` and `difference`
    compare with the first run.
    """
    if not all(record.bits for _, record in runs):
        return [{} for _ in runs]
    arrays = [_array(plan, record) for plan, record in runs]
    common = min(array.shape[1] for array in arrays)
    known: dict[tuple[str, bytes], int] = {}
    rows: list[Row] = []
    for (plan, _), array in zip(runs, arrays, strict=True):
        shown = array[:, :common]
        number = known.setdefault((shown.dtype.str, shown.tobytes()), len(known) + 1)
        found = compared_results(arrays[0][:, :common], shown, runs[0][0].algorithm, plan.algorithm)
        differing, trees = found["differing"], found["trees"]
        why = "other values" if differing is None else ""
        if differing:
            why = f"element {found['first']}"
            why += f": {' against '.join(trees)}" if trees is not None and len(trees) > 1 else ""
        percent = None if differing is None else round(100 * differing / common, 1)
        rows.append({"result": number, "changed_percent": percent, "difference": why})
    return rows


def _array(plan: Plan, record: RunRecord) -> Any:
    assert plan.spec.numbers is not None
    return np.frombuffer(bytes.fromhex(record.bits or ""), FLOAT_TYPES[plan.spec.numbers.type].storage).reshape(1, -1)

"""Change one row of a history: claims and audit must reject impossible histories, the replay every change."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from stress_tests.common import Attempt, Budget, Row

ROWS = 6
"""Rows per history to which every mutation is applied."""


def change_rows(rows: int, number: int) -> Attempt:
    """Apply every mutation to some rows of the history of one algorithm."""
    from tests.mutation_support import (
        CASES,
        IMPOSSIBLE,
        MUTATIONS,
        case_name,
        history,
        replayed,
        small_plan,
        verdict_on,
    )

    case = CASES[number]
    plan, records = small_plan(case), history(case)
    tried = accepted = 0
    wrong = []
    for place in sorted({(salt * 104_729 + number * 7919) % len(records) for salt in range(rows)}):
        for name, mutation in MUTATIONS.items():
            changed = mutation(plan, records, place)
            if changed is None:
                continue
            tried += 1
            holds = verdict_on(plan, changed) == "holds"
            accepted += holds
            if holds and name in IMPOSSIBLE:
                wrong.append(f"{case_name(case)}: accepted by claims and audit: {name} (row {place})")
            if not replayed(plan, changed):
                wrong.append(f"{case_name(case)}: accepted by the replay: {name} (row {place})")
    return Attempt(wrong, Counter(accepted=accepted), tried)


def run_section(budget: Budget) -> Iterator[Row]:
    """Run every algorithm, or every tenth."""
    from tests.mutation_support import CASES

    row = Row("histories with one wrong row")
    numbers = range(0, len(CASES), budget.times(1, 10))
    counts = row.run_all(partial(change_rows, budget.times(ROWS, 1)), numbers, processes=2)
    row.note = f"{counts['accepted']} are equally valid histories, which only the replay rejects"
    yield row

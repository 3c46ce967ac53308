"""Change one row of a history: claims and audit must reject impossible histories, the replay every change."""

from collections import Counter
from functools import partial

from stress_tests.common import Budget, Row, each, preload

ROWS = 6
"""Rows per history to which every mutation is applied."""


def try_all(rows: int, number: int) -> tuple[Counter[str], list[str]]:
    """One algorithm: histories tried, histories accepted by claims and audit, and mutations that no judge rejected."""
    from tests.mutation_support import CASES, IMPOSSIBLE, MUTATIONS, case_name, history, plan_of, replayed, verdict_on

    case = CASES[number]
    plan, records = plan_of(case), history(case)
    tally: Counter[str] = Counter()
    wrong = []
    for place in sorted({(salt * 104_729 + number * 7919) % len(records) for salt in range(rows)}):
        for name, mutation in MUTATIONS.items():
            changed = mutation(plan, records, place)
            if changed is None:
                continue
            tally["tried"] += 1
            passed = verdict_on(plan, changed) == "holds"
            tally["passed"] += passed
            if passed and name in IMPOSSIBLE:
                wrong.append(f"{case_name(case)}: accepted by claims and audit: {name} (row {place})")
            if not replayed(plan, changed):
                wrong.append(f"{case_name(case)}: accepted by the replay: {name} (row {place})")
    return tally, wrong


def run_section(budget: Budget) -> list[Row]:
    """Run every algorithm, or every tenth."""
    preload()
    from tests.mutation_support import CASES

    row, tally = Row("oracle_mutation", "histories with one wrong row"), Counter[str]()
    for found, wrong in each(partial(try_all, budget.times(ROWS, 1)), range(0, len(CASES), budget.times(1, 10)), 2):
        tally += found
        row.wrong += wrong
    row.tried = tally["tried"]
    row.note = f"{tally['passed']} are equally valid histories, which only the replay rejects"
    return [row]

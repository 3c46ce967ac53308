"""Histories with one wrong row, of every algorithm: claims and audit tell what cannot be, the replay tells all."""

from collections import Counter
from functools import partial

from stress_tests.common import Budget, Row, each, preload

ROWS = 6
"""Rows of each history that are changed, in every way there is."""


def try_all(rows: int, number: int) -> tuple[Counter[str], list[str]]:
    """One algorithm: how many histories were judged and how many claims and audit let pass, and what nobody caught."""
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
                wrong.append(f"{case_name(case)}: claims and audit let pass: {name} (row {place})")
            if not replayed(plan, changed):
                wrong.append(f"{case_name(case)}: the replay lets pass: {name} (row {place})")
    return tally, wrong


def run_section(budget: Budget) -> list[Row]:
    """Every algorithm, or every tenth."""
    preload()
    from tests.mutation_support import CASES

    row, tally = Row("oracle_mutation", "histories with one wrong row"), Counter[str]()
    for found, wrong in each(partial(try_all, budget.times(ROWS, 1)), range(0, len(CASES), budget.times(1, 10)), 2):
        tally += found
        row.wrong += wrong
    row.tried = tally["tried"]
    row.note = f"{tally['passed']} are another way that is as good: only the replay tells them"
    return [row]

"""Change one row of a history: claims and audit must reject impossible histories, the replay every change.

The checkers of archives judge each changed history as well, and have to agree. A certificate with one wrong value is
refused, unless it still says something true.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from stress_tests.common import Attempt, Budget, Row

ROWS = 6
"""Rows per history for every mutation."""


def change_rows(rows: int, number: int) -> Attempt:
    """Apply every mutation to some rows of the history of one algorithm."""
    from tests.contract.cases import CASES
    from tests.helpers.mutation_support import IMPOSSIBLE, MUTATIONS, is_within_claims, replayed, verdict_on

    case = CASES[number]
    plan, records = case.plan, case.history
    tried = accepted = 0
    wrong = []
    changes = {}
    for place in sorted({(salt * 104_729 + number * 7919) % len(records) for salt in range(rows)}):
        for name, mutation in MUTATIONS.items():
            changed = mutation(plan, records, place)
            if changed is None:
                continue
            tried += 1
            changes[f"{case.name}: {name} (row {place})"] = plan, changed, ()
            holds = verdict_on(plan, changed) == "holds"
            accepted += holds
            if holds and name in IMPOSSIBLE and not is_within_claims(plan, name):
                wrong.append(f"{case.name}: accepted by claims and audit: {name} (row {place})")
            if not replayed(plan, changed):
                wrong.append(f"{case.name}: accepted by the replay: {name} (row {place})")
    return Attempt(wrong + disagreements(changes), Counter(accepted=accepted), tried)


def disagreements(changes: Any) -> list[str]:
    """Return the changed histories that the judges of archives judge differently."""
    from tests.annexes.proofs import archives_support

    with TemporaryDirectory() as folder:
        return [f"the judges disagree: {each}" for each in archives_support.disagreements(changes, Path(folder))]


def change_faulty_rows(scenarios: list[str], number: int) -> Attempt:
    """Apply every mutation to one row of a recorded run with faults, and compare the judges."""
    from coordinator.history.journal import records_of_rows
    from tests.helpers.mutation_support import MUTATIONS
    from tests.helpers.scenarios import Case

    case = Case(scenarios[number])
    run, records = case.run, records_of_rows(case.journal.lazy())
    place = number * 7919 % max(len(records), 1)
    changes = {scenarios[number]: (run.plan, records, run.execution.altered_copies)}
    for name, mutation in MUTATIONS.items():
        changed = mutation(run.plan, records, place) if len(records) else None
        if changed is not None:
            key = f"{scenarios[number]}: {name} (row {place})"
            changes[key] = run.plan, changed, run.execution.altered_copies
    return Attempt(disagreements(changes), Counter(), len(changes))


def change_certificate(times: int, number: int) -> Attempt:
    """Change one value of a certificate; `times` such changes, or all for 0."""
    from tests.annexes.proofs.archives_support import misjudged_forgeries, one_value_forgeries
    from tests.annexes.proofs.test_certificate_archive import CERTIFICATES, stored

    name = list(CERTIFICATES)[number]
    forgeries = list(one_value_forgeries(stored(name)))
    changes = dict(forgeries[:: max(1, len(forgeries) // times) if times else 1])
    with TemporaryDirectory() as folder:
        wrong = [f"{name}: misjudged:{each}" for each in misjudged_forgeries(name, changes, Path(folder))]
    return Attempt(wrong, Counter(), len(changes))


def run_section(budget: Budget) -> Iterator[Row]:
    """Run every algorithm, or every sixteenth."""
    from tests.contract.cases import CASES
    from tests.helpers.recorded_runs import recorded

    row = Row("histories with one wrong row")
    numbers = range(0, len(CASES), budget.times(1, 16))
    counts = row.run_all(partial(change_rows, budget.times(ROWS, 1)), numbers, processes=2)
    row.note = f"{counts['accepted']} are equally valid histories, which only the replay rejects"
    yield row
    row = Row("runs with faults, and with one wrong row more")
    scenarios = [record["scenario"] for record in recorded() if "clock=timed" not in record["scenario"]]
    faulty = [scenario for scenario in scenarios if "fault=" in scenario]
    row.run_all(partial(change_faulty_rows, faulty), range(0, len(faulty), budget.times(1, 60)), processes=2)
    yield row
    from tests.annexes.proofs.test_certificate_archive import CERTIFICATES

    row = Row("certificates with one wrong value")
    row.run_all(
        partial(change_certificate, budget.times(150, 6)), range(0, len(CERTIFICATES), budget.times(1, 3)), processes=2
    )
    yield row

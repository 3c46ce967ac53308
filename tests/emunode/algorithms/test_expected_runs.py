"""Runs with the numbers that a paper, a closed form or an independent count predicts for them.

A row of `tests/golden/expected_runs.csv` is a scenario with the metrics that its run must have; all claims must hold.
"""

import pytest

from tests.helpers.support import failures, golden_rows, row_fields, run_scenario, scenario_id


@pytest.mark.exhaustive(one_in=40)
@pytest.mark.parametrize("row", golden_rows("", "expected_runs"), ids=scenario_id)
def test_run_has_the_expected_metrics(row: dict[str, str]) -> None:
    expected = {"verdict": "holds"} | dict(pair.split("=") for pair in row["expected"].split())
    result = run_scenario(None, **row_fields(row))
    measured = {name: str(result.summary[name]) for name in expected}
    assert measured == expected, failures(result)

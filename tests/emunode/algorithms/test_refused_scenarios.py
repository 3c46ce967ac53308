"""Scenarios that an algorithm, a network or a protocol refuses, with the field and the message of the refusal."""

import re

import pytest

from emunode.annexes import MissingAnnexError
from emunode.errors import ScenarioError
from tests.helpers.support import golden_rows, row_fields, run_scenario, scenario_id


@pytest.mark.parametrize("row", golden_rows("", "refused_scenarios"), ids=scenario_id)
def test_invalid_scenario_is_refused(row: dict[str, str]) -> None:
    scenario = row_fields(row)
    with pytest.raises(ScenarioError) as caught:
        run_scenario(None, **scenario)
    error = caught.value
    if isinstance(error, MissingAnnexError):
        raise error  # which skips the row
    assert re.search(row["message"], str(error))
    assert error.field == row["field"]
    # A message that begins with the field says that the algorithm has no use for any value of it.
    if row["field"] in scenario and not row["message"].startswith(f"{row['field']}: "):
        assert str(error.value) == scenario[row["field"]]

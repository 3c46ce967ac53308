"""Scenarios that an algorithm, a topology or a collective refuses, with the field and the message of the refusal."""

import pytest

from emunode.errors import ScenarioError
from tests.helpers.support import golden_rows, row_fields, run_scenario, scenario_id


@pytest.mark.parametrize("row", golden_rows("", "refused_scenarios"), ids=scenario_id)
def test_invalid_scenario_is_refused(row: dict[str, str]) -> None:
    scenario = row_fields(row)
    with pytest.raises(ScenarioError, match=row["message"]) as caught:
        run_scenario(None, **scenario)
    assert caught.value.field == row["field"]
    if row["field"] in scenario:
        assert str(caught.value.value) == scenario[row["field"]]

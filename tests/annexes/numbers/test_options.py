"""The options of real numbers: their values, and what they need."""

import pytest
from pydantic import ValidationError

from coordinator.annexes.numbers.options import NumberOptions
from tests.helpers.scenarios import Case

REDUCE = "star:3 reduce greedy-tree"


def test_without_options_a_reduction_is_of_bytes() -> None:
    options = Case(REDUCE).scenario.model_dump()
    assert not any(options[name] for name in NumberOptions.model_fields)


@pytest.mark.parametrize("values", [{"values": "float31"}, {"rounding": "never"}, {"data": "x" * 4097}], ids=str)
def test_other_values_are_refused(values: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=next(iter(values))):
        NumberOptions(**values)  # type: ignore[arg-type]


def test_real_numbers_take_the_options() -> None:
    case = Case(REDUCE, values="bfloat16", rounding="end", fixed_order=True)
    given = {name: value for name, value in case.scenario.model_dump().items() if name in NumberOptions.model_fields}
    assert {name: value for name, value in given.items() if value} == {
        "values": "bfloat16", "rounding": "end", "fixed_order": True,
    }  # fmt: skip
    assert case.plan.spec.collective == "reduce"

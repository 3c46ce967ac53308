"""Records are read strictly, and the first mistake is named."""

from dataclasses import dataclass
from typing import Any

import pytest

from coordinator.history.stored.reading import RefusedError
from coordinator.history.stored.records import Finite, Items, Natural, read_record


@dataclass(frozen=True)
class Sample:
    count: Natural
    rows: Items[tuple[str, Finite]] = ()
    whole: bool = False

    def __post_init__(self) -> None:
        if self.count == 7:
            raise RefusedError("seven is too many")


def test_a_record_comes_from_a_line_or_from_values() -> None:
    expected = Sample(3, (("a", 0.5),))
    assert read_record(Sample, {"count": 3, "rows": [["a", 0.5]], "later": None}) == expected
    assert read_record(Sample, b'{"count": 3, "rows": [["a", 0.5]]}') == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "count is missing"), ([], "it is a list, expected an object"), (b"{", "Invalid JSON: EOF"),
        ({"count": "3"}, "count is '3', expected a whole number from 0 on"), ({"count": True}, "count is True"),
        ({"count": 2**63}, "count is 9223372036854775808"), ({"count": 1.0}, "count is 1.0"), ({"count": -1}, "count is -1"),
        ({"count": 1, "whole": 1}, "whole is 1, expected true or false"), ({"count": 7}, "seven is too many"),
        (b'{"count": 1, "rows": [["a", NaN]]}', "rows.0.1 is nan, expected a number"), ([[]] * 10**6, "it is a list"),
        ({"count": 1, "rows": [["a"]] * 10**6}, "rows.0.1 is missing"), (b"[" * 10**6, "Invalid JSON: recursion limit"),
        ({"count": "\x1b" * 99}, r"count is '\\x1b.*\.\.\.', expected"),
    ],
    ids=str,
)  # fmt: skip
def test_the_first_mistake_of_a_record_is_named(value: Any, words: str) -> None:
    with pytest.raises(RefusedError, match=f"^{words}"):
        read_record(Sample, value)

"""The findings of `coordinator doctor`, for tests of `doctor` and `clean`."""

from collections.abc import Callable

import pytest

from tests.command_line import Call

Examine = Callable[[], dict[str, tuple[str, str]]]


@pytest.fixture
def examine(call: Call) -> Examine:
    """Call `doctor` and return the state and what was seen, by subject."""
    return lambda: {finding["subject"]: (finding["state"], finding["seen"]) for finding in call("doctor --json").data}

"""Messages of a file: their text, and texts that are refused."""

import json

import pytest

from emunode.annexes.schedules.given_messages import GivenMessageExchange, GivenMessages, parse_messages
from emunode.annexes.schedules.given_schedule import find_given
from emunode.errors import ScenarioError
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.registry import parse_topology

# 0 sends 8 bytes to 1, and 1 passes 4 bytes on to 2 after its receipt.
ROWS = [
    [1, 0, 1, 0, 1, 8, [], []],
    [2, 1, 0, 0, 1, 8, [], []],
    [1, 1, 2, 0, 2, 4, [1], []],
    [2, 2, 1, 0, 2, 4, [], []],
    [0, 2, 2, 0, 0, 0, [3], []],
]


def text(**changes: object) -> str:
    """Return the text of the rows, with changes."""
    return json.dumps({"file": "a.goal", "ranks": 3, "stated_steps": 0, "operations": ROWS, **changes})


def rows(place: int, entry: int, value: object) -> list[list[object]]:
    """Return the rows with another value in one place."""
    return [
        [value if (row, at) == (place, entry) else each for at, each in enumerate(line)]
        for row, line in enumerate(ROWS)
    ]


def algorithm(given: str) -> GivenMessageExchange:
    """Return the algorithm of a text on a path of three nodes."""
    spec = CollectiveSpec("mesh:3", Collective.MESSAGES, "schedule", 0, schedule=given)
    found = find_given(spec)(parse_topology("mesh:3"), spec)
    assert isinstance(found, GivenMessageExchange)
    return found


def test_a_list_comes_back_from_its_text() -> None:
    given = parse_messages(text())
    assert isinstance(given, GivenMessages)
    assert parse_messages(given.text) == given
    assert (given.most_messages, given.largest_bytes) == (1, 8)


def test_losses_follow_the_receipts_that_a_send_waits_for() -> None:
    made = algorithm(text())
    assert [(*each,) for each in made.listed] == [(0, 1, 0, 8), (1, 2, 0, 4)]
    assert [each.target for each in made.lost_messages(lambda *_: True)] == []
    assert [each.target for each in made.lost_messages(lambda step, *_: step > 1)] == [1, 2]
    assert [each.target for each in made.lost_messages(lambda step, *_: step < 2)] == [2]
    assert made.early_messages({(1, 2, 0): 1}, {(0, 1, 0): 1}) == [1]
    assert made.early_messages({(1, 2, 0): 9}, {}) == [9]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (text(operations=rows(0, 0, 3)), "kind: 3 is not a whole number from 0 to 2"),
        (text(operations=rows(0, 5, 2**40)), "size: 1099511627776 is not a whole number"),
        (text(operations=rows(2, 6, [7])), "after: 7 is not a whole number from 0 to 4"),
        (text(operations=rows(2, 6, 1)), "a list of operations to wait for"),
        (text(operations=[[0]]), "a list with 8 entries for each"),
        (text(operations=ROWS[:3]), "every message needs one send and one receipt"),
        (text(operations=rows(3, 4, 3)), "received in another step than it is sent in"),
        (text(operations=rows(2, 6, [0])), "waits for an operation of another rank"),
        (text(operations=rows(2, 6, [2])), "sent before one that it waits for, or never"),
        (text(operations=[*ROWS[:2], [1, 1, 2, 0, 1, 4, [1], []], [2, 2, 1, 0, 1, 4, [], []]]), "sent before one"),
        (text(ranks=4), "the file has 4 nodes, mesh:3 has 3 nodes"),
        (
            text(operations=[[1, 0, 2, 0, 1, 8, [], []], [2, 2, 0, 0, 1, 8, [], []]]),
            "0 sends to 2, and no link joins them",
        ),
        (text(extra=1), "its text needs the keys file, ranks, stated_steps, operations"),
    ],
)
def test_impossible_lists_are_refused(given: str, reason: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        algorithm(given)
    assert reason in refused.value.allowed

"""Schedules as text: what is accepted, and hops that cannot be."""

import json

import pytest

from emunode.annexes.schedules.given_schedule import GivenHop, GivenSchedule, find_given, parse_given
from emunode.errors import ScenarioError
from emunode.model import Collective, CollectiveSpec
from tests.helpers.scenarios import Case

CHAIN = GivenSchedule("chain.xml", 4, 1, (), 3, [GivenHop(1, 0, 1, 0, -1, 0), GivenHop(2, 1, 3, 0, -1, 0)])


def changed(**values: object) -> str:
    """Return the text of the chain with other values."""
    return json.dumps({**json.loads(CHAIN.text), **values})


def test_a_schedule_comes_back_from_its_text() -> None:
    assert parse_given(CHAIN.text) == CHAIN


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "neither a file that can be read nor the text of a schedule"),
        ("[" * 100_000, "neither a file that can be read nor the text of a schedule"),
        ("[]", "its text needs the keys file, ranks, messages, folders, stated_steps, hops"),
        (changed(more=1), "its text needs the keys file, ranks, messages, folders, stated_steps, hops"),
        (changed(hops=[]), "hops: a list of 6 numbers for each hop is expected"),
        (changed(hops=[1, 0, 1, 0, -1]), "hops: a list of 6 numbers for each hop is expected"),
        (changed(hops=[1, 0, 4, 0, -1, 0]), "receiver: 4 is not a whole number from 0 to 3"),
        (changed(hops=[1, 0, 1, 0, -2, 0]), "target: -2 is not a whole number from -1 to 3"),
        (changed(hops=[1, 0, 1, 0, -1, 1]), "segment: 1 is not a whole number from 0 to 0"),
        (changed(hops=[0, 0, 1, 0, -1, 0]), "step: 0 is not a whole number from 1 to 1048576"),
        (changed(hops=[True, 0, 1, 0, -1, 0]), "step: True is not a whole number from 1 to 1048576"),
        (changed(ranks=10**9), "ranks: 1000000000 is not a whole number from 2 to 1048576"),
        (changed(folders=[4]), "folders: 4 is not a whole number from 0 to 3"),
        (changed(file=7), "file: a text of at most 255 characters is expected"),
    ],
)
def test_malformed_texts_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse_given(text)
    assert (error.value.field, error.value.allowed) == ("schedule", reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (changed(hops=[1, 0, 3, 0, -1, 0]), "0 sends to 3, and no link joins them"),
        (changed(hops=[1, 0, 1, 0, -1, 0, 1, 1, 3, 0, -1, 0]), "step 1: 1 sends a chunk of 0 that it has not received"),
        (changed(ranks=5), "the file has 5 nodes, hypercube:2 has 4 nodes"),
    ],
)
def test_hops_that_cannot_be_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _ = Case("hypercube:2 broadcast schedule", schedule=text).plan
    assert error.value.allowed == reason


def test_a_run_needs_the_numbers_of_its_file() -> None:
    case = Case("hypercube:2 broadcast schedule", schedule=CHAIN.text)
    assert case.plan.algorithm.citation == "a schedule file"
    for field, value in (("messages", 2), ("segments", 2), ("redundancy", 2)):
        with pytest.raises(ScenarioError, match="as the file says; leave it out"):
            _ = case.but(**{field: value}).plan
    with pytest.raises(ScenarioError, match="needs a file: --schedule FILE"):
        _ = Case("hypercube:2 broadcast schedule").plan
    with pytest.raises(ScenarioError, match="schedule files perform: broadcast"):
        find_given(CollectiveSpec("hypercube:2", Collective.UNICAST, "schedule", 0))


def test_an_incomplete_schedule_is_violated() -> None:
    case = Case("hypercube:2 broadcast schedule", schedule=CHAIN.text)
    assert case.summary["verdict"] == "violated"
    verdicts = {(claim["name"], claim["relation"]): claim["verdict"] for claim in case.summary["claims"]}
    assert verdicts["intact_deliveries", "=="] == "violated"
    assert verdicts["steps", "<="] == "holds"

"""The schema of answers: nothing else than what is stated passes, and nothing makes the judge fail."""

import json
from itertools import product

import pytest

from coordinator.annexes.grading.answers import RESULTS, MalformedAnswerError, read_answer

RIGHT: dict[str, dict[str, object]] = {
    "load": {
        "algorithms": [{"key": ["star", "broadcast", "a"], "port_models": [], "duplexes": [], "built_in": None}],
        "families": {"a": ["a:3"]},
        "trees": [],
    },
    "network": {"title": "", "degree": 1, "labels": ["a", "b"], "neighbours": [[1], [0]]},
    "parents": {"trees": [["a", 1, None]]},
    "open": {
        "segments_per_message": 1, "link_capacity": None, "max_redundancy": 1, "tolerated_faults": 0, "ack_bytes": 0,
        "claims": [["steps", 1.5, "==", "me"]], "late": [[0, 1]], "due": 1,
    },
    "step": {"sends": [[0, 1, [0, -1, 0, 0, "ff00"]]], "late": [], "due": None},
}  # fmt: skip
WRONG: tuple[object, ...] = ({}, {"a": 1}, 7, 0.5, True, [[0.0, 1]], [["a"]], [7], "\ud800")


def test_right_answers_pass() -> None:
    assert RIGHT.keys() == RESULTS.keys()
    for do, result in RIGHT.items():
        assert read_answer(do, json.dumps({"result": result}).encode()).problem is None
    assert read_answer("step", b'{"failed": "x"}').problem == "x"


@pytest.mark.parametrize("do", RIGHT)
def test_forged_answers_are_malformed(do: str) -> None:
    for name, value in product((*RIGHT[do], "unknown"), WRONG):
        forged = {**RIGHT[do], name: value}
        if type(value) is type(RIGHT[do].get(name)) or (name, value) in (
            ("due", 7),
            ("link_capacity", 7),
            ("families", {}),
        ):
            continue
        with pytest.raises(MalformedAnswerError):
            read_answer(do, json.dumps({"result": forged}).encode())
    for name in RIGHT[do]:
        with pytest.raises(MalformedAnswerError):
            read_answer(
                do, json.dumps({"result": {key: each for key, each in RIGHT[do].items() if key != name}}).encode()
            )
    wholes: list[object] = [{}, [], 5, None, {"failed": 5}, {"refused": ["a"]}, {"denied": 7}]
    for whole in [*wholes, {"failed": "x", "result": RIGHT[do]}]:
        with pytest.raises(MalformedAnswerError):
            read_answer(do, json.dumps(whole).encode())
    for data in (b"", b"\xff", b"[" * 100_000, b"nonsense"):
        with pytest.raises(MalformedAnswerError):
            read_answer(do, data)

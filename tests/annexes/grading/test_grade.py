"""Grades: what is right passes, what is required is checked, and time that is over decides nothing."""

import shlex
from pathlib import Path

import pytest

from coordinator.annexes.grading.confinement import Limits
from coordinator.annexes.grading.layers import Layer
from coordinator.annexes.grading.marks import MarkVerdict
from tests.annexes.grading.submissions import findings, flood, graded, marks, receive
from tests.helpers.command_line import command, fresh, run_process


def test_right_submission_passes(tmp_path: Path) -> None:
    found = graded(tmp_path, flood(algorithm="del tolerated_faults"), "star:3", "star:4")
    assert findings(found) == ""
    assert found.verdict is MarkVerdict.PASS
    seen = marks(found)
    # Every source of S_3 and S_4.
    assert seen["delivery"].cases == seen["model"].cases == 6 + 24
    # Every node but the source, and every link; S_3 from every source, S_4 from some.
    assert seen["faults"].cases == 6 * (5 + 6) + 8 * (23 + 36)
    assert seen["faults"].notes == ["star:4: every single fault from 8 of 24 sources"]
    assert "at worst 1.00 times the bound" in seen["bound"].notes[0]
    record = found.record()
    assert (record["points"], record["of"], record["verdict"]) == (70, 70, "pass")
    layers = [*record["protection"], *record["not_protected"]]  # type: ignore[misc]
    assert {*layers} | {"other user"} == {*map(str, Layer)}


def test_bound_and_port_model_can_be_required(tmp_path: Path) -> None:
    slow = flood("""
        def start(self):
            for step, port, segment in super().start():
                yield step + 1, port, segment
    """)
    found = graded(tmp_path, slow, within=1.2)
    assert marks(found)["bound"].verdict is MarkVerdict.FAIL
    assert "1.33 times the bound" in findings(found)
    found = graded(tmp_path, flood(), port_models=("one-port",))
    assert marks(found)["model"].verdict is MarkVerdict.FAIL
    assert "one-port, 123: refused" in findings(found)


def test_printing_a_little_is_allowed_and_shown(tmp_path: Path) -> None:
    found = graded(tmp_path, flood(after="print('hello')"))
    assert found.verdict is MarkVerdict.PASS
    assert found.printed.startswith("hello\n")


def test_time_that_is_over_is_undecided(tmp_path: Path) -> None:
    found = graded(tmp_path, flood(), limits=Limits(answer_seconds=120.0, total_seconds=0.001))
    assert found.verdict is MarkVerdict.UNDECIDED
    assert "the grader stops after" in str(found.record())


def test_too_few_open_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    line = "coordinator check mine.py --topology star:3"
    ended = run_process(tmp_path, ["bash", "-c", f"ulimit -n 48; exec {shlex.join(fresh(command(line)))}"])
    assert ended.status == 4
    assert ended.err == "coordinator: the limit of 48 open files is too low to grade; raise it to 64\n"


FORGED = """
import json
old = json.dumps
def dumps(message, *rest, **more):
    result = message.get("result") if isinstance(message, dict) else None
    if isinstance(result, dict) and "families" in result:
        first = result["algorithms"][0]
        {forgery}
    return old(message, *rest, **more)
json.dumps = dumps
from coordinator.annexes.grading import session
parse = session.parse_topology
session.parse_topology = lambda name: parse("ring:3" if name == "easy" else name)
"""
"""Names forged in the process of a submission, which has an easy network of its own."""
FORGERIES = {
    "the network of the judge": ("result['families'] = {'star': ['easy']}", "the family star is not its own"),
    "every network": ("result['families'] = {'any': ['easy']}", "the family any is not its own"),
    "another network": ("first['key'][0] = 'no-one'", "no family of networks is called 'no-one'"),
    "another collective": ("first['key'][1] = 'no-one'", "no collective is called 'no-one'"),
    "twice": ("result['algorithms'] *= 2", "star broadcast mine is registered twice"),
    "no examples": ("result['families'] = {'mine': []}", "mine: it names no small_examples"),
}


@pytest.mark.parametrize(("forgery", "finding"), FORGERIES.values(), ids=FORGERIES)
def test_forged_names_are_found(tmp_path: Path, forgery: str, finding: str) -> None:
    silent = flood(receive("sends = []"), after=FORGED.format(forgery=forgery))
    found = graded(tmp_path, silent, "star:4")
    assert (found.verdict, finding in findings(found)) == (MarkVerdict.FAIL, True)
    assert all(subject.networks != ["easy"] for subject in found.subjects)

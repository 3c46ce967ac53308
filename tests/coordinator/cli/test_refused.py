"""Command lines that are refused: exit status 2, the reason on standard error, and nothing left in the folder."""

import re
import time
from pathlib import Path

import pytest

from coordinator.cli.app import CORE_COMMANDS
from coordinator.cli.invoke import WITH_OPTIONS
from tests.helpers.command_line import Call
from tests.helpers.support import golden_rows

STAR = "--topology star:4 --collective broadcast --algorithm greedy-tree"
EDT = "--topology star:4 --algorithm edt --redundancy 2"
BEGUN = {
    "RUN": f"run {STAR} --driver memory",
    "SERVE": "serve --topology star:3 --collective broadcast --algorithm flood",
    "POINT": f"campaign {EDT} --faults nodes=1",
    "CERTIFY": f"certify {EDT}",
}
"""Command lines that are right, and wrong with the flags that the table adds."""
REFUSED = [(row["line"].format_map(BEGUN), row["message"]) for row in golden_rows("", "refused_lines")]
REFUSED += [
    (f"run {STAR} --name {'a' * 300}", "at most 128 characters"),
    (f"sweep ring:3..{'9' * 4000} broadcast flood", "at most 1,000 networks"),
    (f"{BEGUN['POINT']} --vary seed=1..{'9' * 4000}", "a range holds at most 10,000 values"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=[line[:150] for line, _ in REFUSED])
def test_refused_command_lines_give_the_reason_and_leave_nothing(
    call: Call, tmp_path: Path, line: str, message: str
) -> None:
    began = time.process_time()
    ended = call(line)
    assert (ended.status, ended.out == "") == (2, "--json" not in line)
    assert ended.err.startswith("coordinator: ")
    assert message in ended.err
    assert list(tmp_path.iterdir()) == []
    assert time.process_time() - began < 10


@pytest.mark.parametrize("command", WITH_OPTIONS)
def test_a_command_alone_names_what_it_needs(call: Call, command: str) -> None:
    ended = call(command)
    assert (ended.status, ended.out) == (2, "")
    assert re.match(r"coordinator: .*(these are required: topology|give)", ended.err), ended.err


def test_the_error_of_a_field_has_its_name_in_json(call: Call) -> None:
    error = call("run star:99 broadcast edt --json").data["error"]
    assert (error["kind"], error["field"], error["value"]) == ("ScenarioError", "topology", "star:99")
    assert error["allowed"]


@pytest.mark.parametrize("command", CORE_COMMANDS)
def test_every_command_prints_errors_as_json(call: Call, command: str) -> None:
    ended = call(f"{command} --json --no-such-flag")
    assert ended.status == ended.data["exit_status"] == 2
    assert "--no-such-flag" in ended.data["error"]["message"]
    assert ended.err.startswith("coordinator: ")

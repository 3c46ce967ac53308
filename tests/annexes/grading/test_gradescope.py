"""Results for Gradescope."""

import json
from pathlib import Path

from tests.annexes.grading.submissions import flood, receive
from tests.helpers.command_line import Call


def test_results_for_gradescope(tmp_path: Path, call: Call) -> None:
    """The fields are those of its documentation: scores, states and texts of tests, and no markup."""
    file = tmp_path / "mine.py"
    file.write_text(flood(receive("sends = []")))
    ended = call(f"check {file} --topology star:3 --gradescope {tmp_path}/results.json --json")
    grade_record = json.loads(ended.out)
    found = json.loads((tmp_path / "results.json").read_text())
    assert ended.status == 1
    assert {*found} == {
        "score", "execution_time", "output", "output_format", "test_output_format", "test_name_format", "extra_data",
        "tests",
    }  # fmt: skip
    assert found["score"] == grade_record["points"] == sum(test.get("score", 0) for test in found["tests"])
    assert sum(test.get("max_score", 0) for test in found["tests"]) == grade_record["of"]
    tests = {test["name"]: test for test in found["tests"]}
    delivery = tests["algorithm broadcast mine: delivery"]
    assert (delivery["score"], delivery["max_score"], delivery["status"]) == (0, 10, "failed")
    assert "star:3, all-port, 123: not reached: 132, 312, 231" in delivery["output"]
    assert tests["file the file: loads"]["status"] == "passed"
    assert "score" not in tests["algorithm broadcast mine: bound"]
    assert {found[name] for name in found if name.endswith("_format")} == {"text"}
    assert found["extra_data"]["protection"] == grade_record["protection"]


def test_results_need_a_folder(tmp_path: Path, call: Call) -> None:
    file = tmp_path / "mine.py"
    file.write_text(flood())
    ended = call(f"check {file} --topology star:3 --gradescope {tmp_path}/no/results.json")
    assert ended.status == 2
    assert "invalid gradescope" in ended.err

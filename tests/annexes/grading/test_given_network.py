"""Networks of submissions: algorithms run on them, and their mistakes are named."""

from pathlib import Path

import pytest

from coordinator.annexes.grading.grade import GradeOptions, grade
from coordinator.annexes.grading.marks import MarkVerdict
from coordinator.annexes.grading.scaffold import network_text
from emunode.errors import ScenarioError
from tests.annexes.grading.submissions import LIMITS, findings, flood, graded, marks


def test_algorithm_on_a_network_of_the_submission(tmp_path: Path) -> None:
    text = network_text("my-ring", "mine.py")
    file = tmp_path / "mine.py"
    file.write_text(text + flood(algorithm="family = 'my-ring'").replace("class R(", "\nclass R("))
    found = grade(file, GradeOptions(limits=LIMITS), lambda *_: None)
    assert (findings(found), found.verdict) == ("", MarkVerdict.PASS)
    assert marks(found)["delivery"].cases == 3 + 4 + 7


def test_another_network_than_its_own_is_refused(tmp_path: Path) -> None:
    text = network_text("my-ring", "mine.py") + flood(algorithm="family = 'my-ring'").replace("class R(", "\nclass R(")
    with pytest.raises(ScenarioError, match="without --topology it is graded there") as refused:
        graded(tmp_path, text, "star:4")
    assert (refused.value.field, refused.value.value) == ("topology", "star:4")

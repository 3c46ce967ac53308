"""Networks of submissions: algorithms run on them, and their mistakes are named."""

from pathlib import Path

from coordinator.annexes.grading.marks import MarkVerdict
from coordinator.annexes.grading.scaffold import network_text
from tests.annexes.grading.submissions import findings, flood, graded, marks


def test_algorithm_on_a_network_of_the_submission(tmp_path: Path) -> None:
    text = network_text("my-ring", "mine.py")
    found = graded(tmp_path, text + flood(algorithm="family = 'my-ring'").replace("class R(", "\nclass R("))
    assert (findings(found), found.verdict) == ("", MarkVerdict.PASS)
    assert marks(found)["delivery"].cases == 3 + 4 + 7

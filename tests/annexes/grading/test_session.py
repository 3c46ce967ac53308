"""The session in the process of a submission."""

from pathlib import Path

from tests.annexes.grading.submissions import flood, graded


def test_submission_sees_its_own_source(tmp_path: Path) -> None:
    """Although it cannot read its file."""
    found = graded(tmp_path, flood(after="import inspect\nprint(inspect.getsource(R).split()[:2])"))
    assert found.printed.startswith("['class', 'R(FloodRule):']\n")

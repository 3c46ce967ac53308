"""A grade as Gradescope reads it: the content of its file results.json."""

from typing import Any

from coordinator.annexes.grading.grade import Grade, GradedPart
from coordinator.annexes.grading.marks import POINTS, Mark, MarkVerdict

STATUS = {MarkVerdict.PASS: "passed", MarkVerdict.FAIL: "failed"}


def results(grade: Grade, seconds: float) -> dict[str, Any]:
    """Return the results of a grade that took `seconds`: one test for each requirement."""
    record = grade.record()
    lines = [f"{grade.verdict}: {record['points']} of {record['of']} points"]
    if grade.verdict is MarkVerdict.UNDECIDED:
        lines.append("Not every requirement was checked: the time for all checks was over.")
    if grade.printed:
        lines.append(f"It printed: {grade.printed!r}")
    return {
        "score": record["points"],
        "execution_time": round(seconds),
        "output": "\n".join(lines),
        # Texts of a submission must not be read as markup.
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "extra_data": {name: record[name] for name in ("verdict", "of", "protection", "not_protected")},
        "tests": [_test(subject, mark) for subject in grade.subjects for mark in subject.marks],
    }


def _test(subject: GradedPart, mark: Mark) -> dict[str, Any]:
    where = [f"on {', '.join(subject.networks)}"] if subject.networks else []
    cases = [f"{mark.counted} cases"] if mark.cases else []
    test: dict[str, Any] = {
        "name": f"{subject.kind} {subject.name}: {mark.requirement}",
        "output": "\n".join([mark.meaning, *where, *cases, *mark.remarks]),
    }
    if mark.required:
        test |= {"score": mark.points, "max_score": POINTS}
    if mark.verdict in STATUS:
        test["status"] = STATUS[mark.verdict]
    return test

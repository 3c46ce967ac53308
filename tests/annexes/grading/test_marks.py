"""Marks: findings, points and verdicts."""

import pytest

from coordinator.annexes.grading.marks import Mark, MarkVerdict, overall


def test_findings_are_one_line_of_printable_text() -> None:
    mark = Mark("model", "")
    mark.add(["a\n\nb \x1b[2J" + "x" * 1000])
    assert mark.findings[0].startswith("a b \\x1b[2Jxxx")
    assert len(mark.findings[0]) < 320


def test_findings_that_are_not_listed_are_counted() -> None:
    mark = Mark("claims", "")
    for number in range(84):
        mark.add([f"case {number}"])
    assert (len(mark.findings), mark.remarks[-1]) == (5, "and 79 more")


@pytest.mark.parametrize(
    ("mark", "verdict", "points"),
    [
        (Mark("bound", ""), MarkVerdict.UNDECIDED, 0),
        (Mark("bound", "", cases=3, passed=3), MarkVerdict.PASS, 10),
        (Mark("bound", "", cases=3, passed=2), MarkVerdict.FAIL, 6),
        (Mark("bound", "", cases=3, passed=3, stopped="no time"), MarkVerdict.UNDECIDED, 10),
        (Mark("bound", "", cases=3, passed=2, stopped="no time"), MarkVerdict.FAIL, 6),
        (Mark("bound", "", cases=3, passed=2, required=False), MarkVerdict.INFORMATION, 0),
    ],
)
def test_verdict_and_points_follow_from_the_cases(mark: Mark, verdict: MarkVerdict, points: int) -> None:
    assert (mark.verdict, mark.points) == (verdict, points)


def test_a_grade_fails_before_it_is_undecided() -> None:
    passed, failed, undecided = Mark("a", "", 1, 1), Mark("b", "", 1, 0), Mark("c", "")
    assert overall([passed]) is MarkVerdict.PASS
    assert overall([passed, undecided]) is MarkVerdict.UNDECIDED
    assert overall([undecided, failed, passed]) is MarkVerdict.FAIL

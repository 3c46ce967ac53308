"""Marks: a requirement, the number of cases that met it, and the mistakes in the others."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

POINTS: Final = 10
"""Points of a requirement that all cases meet."""
SHOWN_FINDINGS: Final = 5
LONGEST_FINDING: Final = 300
"""Characters of a finding that are shown."""


class MarkVerdict(StrEnum):
    """How a requirement ended."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"
    INFORMATION = "information"
    """Measured, but not required."""


@dataclass(slots=True)
class Mark:
    """One requirement and the cases that checked it."""

    requirement: str
    meaning: str
    cases: int = 0
    passed: int = 0
    findings: list[str] = field(default_factory=list)
    """The first problems, each with the node and the reason."""
    left_out: int = 0
    """Further problems that are not listed."""
    notes: list[str] = field(default_factory=list)
    required: bool = True
    whole: bool = False
    """Whether one case that fails takes all points: a claim that is false once is false."""
    not_run: int = 0
    """Cases that were due and not run, each counted as failed."""
    stopped: str | None = None
    """Why not every case was checked."""

    def add(self, problems: Iterable[str]) -> bool:
        """Count one case; returns whether it passed."""
        found = list(map(one_line, problems))
        self.cases += 1
        self.passed += not found
        new = [problem for problem in found if problem not in self.findings]
        kept = new[: max(0, SHOWN_FINDINGS - len(self.findings))]
        self.findings += kept
        self.left_out += len(new) - len(kept)
        return not found

    def miss(self, finding: str) -> None:
        """Count one case that was due and could not be run."""
        self.not_run += 1
        self.add([finding])

    @property
    def verdict(self) -> MarkVerdict:
        """Fail if a case failed, whatever was not checked; undecided if nothing failed and something was not checked."""
        if not self.required:
            return MarkVerdict.INFORMATION
        if self.passed < self.cases:
            return MarkVerdict.FAIL
        return MarkVerdict.PASS if self.cases and self.stopped is None else MarkVerdict.UNDECIDED

    @property
    def points(self) -> int:
        """Points by the share of cases that passed, rounded down; none for an unchecked requirement."""
        if not self.required or not self.cases or (self.whole and self.passed < self.cases):
            return 0
        return POINTS * self.passed // self.cases

    @property
    def counted(self) -> str:
        """The cases that passed, and those that were run if not all were."""
        run = f" ({self.cases - self.not_run} run)" if self.not_run else ""
        return f"{self.passed} of {self.cases}{run}" if self.cases else ""

    @property
    def remarks(self) -> list[str]:
        """The problems that are listed, how many more there are, and the notes."""
        more = [f"and {self.left_out:,} more"] if self.left_out else []
        return [*self.findings, *more, *self.notes, *([self.stopped] if self.stopped else [])]

    def record(self) -> dict[str, object]:
        """Return the mark as plain values."""
        return {
            "requirement": self.requirement,
            "meaning": self.meaning,
            "verdict": str(self.verdict),
            "cases": self.cases,
            "run": self.cases - self.not_run,
            "passed": self.passed,
            "points": self.points,
            "of": POINTS if self.required else 0,
            "findings": self.findings,
            "left_out": self.left_out,
            "notes": [*self.notes, *([self.stopped] if self.stopped else [])],
        }


def one_line(text: str) -> str:
    """Return a text of a submission, fit for a line of a terminal: no control characters, and not too long."""
    words = " ".join(text.split())
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in words[:LONGEST_FINDING])
    return shown if len(words) <= LONGEST_FINDING else f"{shown} .."


def overall(marks: Iterable[Mark]) -> MarkVerdict:
    """Return "fail" if one requirement fails, else "undecided" if one is undecided, else "pass"."""
    verdicts = [mark.verdict for mark in marks]
    for verdict in (MarkVerdict.FAIL, MarkVerdict.UNDECIDED):
        if verdict in verdicts:
            return verdict
    return MarkVerdict.PASS

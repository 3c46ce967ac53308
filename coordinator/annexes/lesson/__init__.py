"""Lessons: a run as one page that works offline, in which anybody steps, rewinds, and breaks any node or link."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        needs=("exports",),
        commands={
            "export lesson": (
                "coordinator.annexes.lesson.command:LessonExport",
                "Write a page in which anybody steps through a run and breaks any node or link.",
            ),
        },
    )

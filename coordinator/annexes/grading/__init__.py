"""Grades of submissions: algorithms, networks and trees of students, judged outside the processes that run them."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        commands={
            "check": (
                "coordinator.annexes.grading.check_command:check",
                "Grade a submission, an algorithm, a network or trees, or judge schedules from files.",
            ),
            "new algorithm": (
                "coordinator.annexes.grading.new_command:algorithm",
                "Write an algorithm to start from: flooding, or for a reduce a tree. `coordinator check` accepts it.",
            ),
            "new topology": (
                "coordinator.annexes.grading.new_command:topology",
                "Write a family of networks to start from: a ring. `coordinator check` accepts it.",
            ),
        },
        groups={"new": "Write a file to start from: an algorithm or a network of your own."},
    )

"""Reproductions of the tables and figures of papers."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        needs=("exports", "numbers"),
        commands={
            "reproduce": (
                "coordinator.annexes.papers.command:ReproduceCommand",
                "Re-run a paper's experiments: published, predicted and measured values.",
            ),
        },
        names={"reproduce": "coordinator.annexes.papers.api:reproduce"},
    )

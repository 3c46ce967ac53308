"""Exports of runs, networks and campaigns: GraphML, GOAL, traces, animations, and figures for papers."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        commands={
            "export": (
                "coordinator.annexes.exports.command:export_command",
                "Write a network, its trees, a schedule or figures for papers and other programs.",
            ),
        },
        calls={
            "Run.export": "coordinator.annexes.exports.files:export_run",
            "Run.figures": "coordinator.annexes.exports.figures:figures_of_run",
            "Campaign.export": "coordinator.annexes.exports.files:export_campaign",
            "a picture in LaTeX": "coordinator.annexes.exports.latex_pictures:latex_lines",
        },
    )

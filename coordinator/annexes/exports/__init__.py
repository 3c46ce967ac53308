"""Exports of runs, networks and campaigns: GraphML, GOAL, traces, animations, space-time diagrams, figures for papers."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        commands={
            "export": (
                "coordinator.annexes.exports.command:export_command",
                "Write a network, its trees, a schedule or figures for papers and other programs.",
            ),
            "export figures": (
                "coordinator.annexes.exports.command:FiguresExport",
                "Write every chart and map of a run, or every curve of a campaign: as SVG, PNG and LaTeX.",
            ),
            "export gif": (
                "coordinator.annexes.exports.command:GifExport",
                "Write the map of a run, step by step, as an animated picture.",
            ),
            "export trace": (
                "coordinator.annexes.exports.command:TraceExport",
                "Write the packets of a run as a trace: .pftrace for Perfetto, .json for it and chrome://tracing.",
            ),
            "export graphml": (
                "coordinator.annexes.exports.command:GraphmlExport",
                "Write a network and its trees as GraphML.",
            ),
            "export pgfplots": (
                "coordinator.annexes.exports.command:PgfplotsExport",
                "Write the curves of a campaign as LaTeX for pgfplots.",
            ),
            "export csv": (
                "coordinator.annexes.exports.command:CsvExport",
                "Write the points of the curves of a campaign.",
            ),
        },
        panels={"delivery_times_panel": "coordinator.annexes.exports.space_time.panel:space_time_panel"},
        calls={
            "Run.export": "coordinator.annexes.exports.files:export_run",
            "Run.figures": "coordinator.annexes.exports.figures:figures_of_run",
            "Campaign.export": "coordinator.annexes.exports.files:export_campaign",
            "a picture as PNG or PDF": "coordinator.annexes.exports.drawing_files:file_of",
            "a chart in LaTeX": "coordinator.annexes.exports.pgfplots:chart_lines",
        },
    )

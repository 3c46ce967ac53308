"""Figures of fault tolerance of a network: connectivities, diameters, diagnosability and reliability, with closed forms."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        commands={
            "graph": (
                "coordinator.annexes.invariants.command:GraphCommand",
                "Print the properties of a network as a graph, and draw it.",
            ),
        },
        calls={"figures of a network": "coordinator.annexes.invariants.evaluate:evaluate"},
    )

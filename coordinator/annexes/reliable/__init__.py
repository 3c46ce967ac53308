"""Reliable links: every segment is acknowledged on every link, and sent again until it is."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        options={"ReliableOptions": "coordinator.annexes.reliable.options"},
        features={"reliable": "coordinator.annexes.reliable.feature:ReliableFeature"},
        calls={
            "claims of reliable links": "coordinator.annexes.reliable.feature:link_claims",
            "claims of repeated packets": "coordinator.annexes.reliable.walk:repeated_claims",
            "time over reliable links": "coordinator.annexes.reliable.settling:time_over_links",
        },
    )

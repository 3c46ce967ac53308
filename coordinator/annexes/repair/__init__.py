"""Repair: nodes ask for what faults keep from them, or a broadcast runs over trees that avoid known faults."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        options={"RepairOptions": "coordinator.annexes.repair.options"},
        features={"repair": "coordinator.annexes.repair.feature:RepairFeature"},
        calls={
            "time of a repair by requests": "coordinator.annexes.repair.service:time_of_requests",
            "answers to requests": "coordinator.annexes.repair.journal:answers",
        },
    )

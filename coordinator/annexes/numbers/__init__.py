"""Sums of real numbers: the order of every addition, what follows for their bits, and the probe that reads the order."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        options={"NumberOptions": "coordinator.annexes.numbers.options"},
        features={"numbers": "coordinator.annexes.numbers.feature:NumberFeature"},
        panels={"agreement_panel": "coordinator.annexes.numbers.panel:additions_panel"},
        calls={
            "hold arrays as contributions": "coordinator.annexes.numbers.files:hold_contributions",
            "store contributions": "coordinator.annexes.numbers.files:write_contributions",
            "read results": "coordinator.annexes.numbers.files:read_results",
            "gather results": "coordinator.annexes.numbers.results:gather",
            "compare results": "coordinator.annexes.numbers.compared:compared_results",
            "compare bits": "coordinator.annexes.numbers.changed_bits:compared_bits",
            "Run.additions": "coordinator.annexes.numbers.tables:additions_of_run",
            "price of a fixed order": "coordinator.annexes.numbers.feature:price_of",
            "picture of additions": "coordinator.annexes.numbers.panel:tree_drawing",
        },
    )

"""Every order of arrivals: all orders of events that hosts allow, run one after another, must give one journal."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        calls={
            "certify --every-order": "coordinator.annexes.orders.command:search_orders",
            "run --order": "coordinator.annexes.orders.command:run_order",
        }
    )

"""The linear cost of a collective: start-ups one after the other, and the transfer of the heaviest links."""

from dataclasses import dataclass

from coordinator.papers.formulas import Number, same


@dataclass(frozen=True)
class Cost:
    """T = startups x startup time + transfer x transfer time; `transfer` is in bytes or in messages, as the paper counts."""

    startups: Number
    transfer: Number

    def time(self, startup: float, per_unit: float) -> float:
        """Return T for these times of one start-up and one unit of transfer."""
        return float(self.startups) * startup + float(self.transfer) * per_unit

    def equals(self, other: "Cost") -> bool:
        """Return both parts, up to the rounding of roots and logarithms."""
        return same(self.startups, other.startups) and same(self.transfer, other.transfer)

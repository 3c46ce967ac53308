"""The order of the additions of reductions."""

from coordinator.annexes.papers.additions import orders

REPRODUCTIONS = (orders.REPRODUCTION,)

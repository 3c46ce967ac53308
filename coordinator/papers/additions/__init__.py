"""The order of the additions of reductions."""

from coordinator.papers.additions import orders

REPRODUCTIONS = (orders.REPRODUCTION,)

"""Tseng and Sheu on the star graph."""

from coordinator.annexes.papers.tseng_sheu import paper_1997

REPRODUCTIONS = (paper_1997.REPRODUCTION,)

"""Tseng and Sheu on the star graph."""

from coordinator.papers.tseng_sheu import tables

REPRODUCTIONS = (tables.REPRODUCTION,)

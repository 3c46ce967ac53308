"""Fragopoulou and Akl on the star graph (1993 and 1996)."""

from coordinator.annexes.papers.fragopoulou_akl import paper_1996, report_1993, star_against_hypercube

REPRODUCTIONS = tuple(module.REPRODUCTION for module in (report_1993, paper_1996, star_against_hypercube))

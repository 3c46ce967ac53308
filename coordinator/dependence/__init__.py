"""Dependence: which hops every hop of a collective needs, and what faults therefore cost."""

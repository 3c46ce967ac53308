"""Dependence: the hops that every hop of a collective needs, and the resulting cost of faults."""

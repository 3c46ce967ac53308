"""Spanning trees of the permutation star graph."""

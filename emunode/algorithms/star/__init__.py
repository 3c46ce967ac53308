"""Algorithms for the permutation star graph."""

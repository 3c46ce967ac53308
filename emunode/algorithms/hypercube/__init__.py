"""Algorithms for the hypercube."""

"""Algorithms for Eisenstein-Jacobi networks."""

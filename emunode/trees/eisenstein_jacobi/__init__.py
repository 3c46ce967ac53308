"""Spanning trees of Eisenstein-Jacobi networks."""

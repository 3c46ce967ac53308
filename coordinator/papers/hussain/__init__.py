"""Hussain on Eisenstein-Jacobi networks."""

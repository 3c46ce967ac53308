"""Spanning trees of the hypercube."""

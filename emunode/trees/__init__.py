"""Spanning trees, rooted at rank 0."""

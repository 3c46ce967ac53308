"""Placements: the ranks that share a host."""

"""Placements: which ranks share a host."""

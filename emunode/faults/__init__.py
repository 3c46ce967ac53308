"""Faults and their effect on packets."""

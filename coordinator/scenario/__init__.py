"""Scenarios, and the syntax of faults and fault sets."""

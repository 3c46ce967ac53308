"""Scenarios and the syntax of faults."""

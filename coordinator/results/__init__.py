"""Measuring and judging a history."""

"""Algorithms of which each hop is given by a schedule file."""

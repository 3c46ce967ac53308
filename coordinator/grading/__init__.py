"""Grading of submissions: an algorithm, a network or trees from somebody else, run apart and judged here."""

"""Collective algorithms as local rules, and what their papers claim of them."""

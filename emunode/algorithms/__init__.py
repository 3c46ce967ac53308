"""Collective algorithms: local rules and the claims of their papers."""

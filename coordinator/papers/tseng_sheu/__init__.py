"""Tseng and Sheu on the star graph (1997)."""

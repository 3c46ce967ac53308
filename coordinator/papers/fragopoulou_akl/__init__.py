"""Fragopoulou and Akl on the star graph (1993 and 1996)."""

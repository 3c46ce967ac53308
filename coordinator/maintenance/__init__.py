"""Checks of this machine, and the leftovers of killed runs."""

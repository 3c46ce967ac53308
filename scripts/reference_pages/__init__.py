"""The reference documentation, generated from the code."""

"""Traces of a run for programs that show time: one file for each format, listed in `registry`."""

"""Drivers that start host processes."""

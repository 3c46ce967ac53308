"""Launchers: how host processes come to run."""

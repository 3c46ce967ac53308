"""Protocols in a journal: their cost, and the hops that they rule out. Imported on use: polars takes as long as a plan."""

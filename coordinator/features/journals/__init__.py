"""Protocols in a journal: what each cost, and hops that it rules out. Imported on use: polars takes as long as a plan."""

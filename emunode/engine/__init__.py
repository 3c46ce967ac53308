"""Nodes, the set of ranks that one engine runs, and the memory engine."""

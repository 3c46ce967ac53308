"""The protocols that a run may have: one module for each, and the line of each in `registry`."""

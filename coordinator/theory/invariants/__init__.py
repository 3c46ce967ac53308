"""Invariants that the literature compares fault-tolerant networks by, with their closed forms. `registry` lists them."""

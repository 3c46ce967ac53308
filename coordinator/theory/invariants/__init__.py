"""Figures by which the literature compares fault-tolerant networks, each with its closed forms. `registry` lists them."""

"""Spanning trees of any connected network: constructions that need nothing but its links."""

"""The batch engine: the effect of thousands of fault sets at once on a collective with a fixed schedule."""

"""Orders of additions: fold trees, the probe that reads them from results, and what follows for the bits of sums."""

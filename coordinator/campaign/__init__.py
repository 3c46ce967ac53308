"""Many trials: campaigns over a grid, certificates, and the smallest scenario that still fails."""

"""Real numbers as message contents: types, rounding, addition, and the contributions of ranks. Arithmetic only."""

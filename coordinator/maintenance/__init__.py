"""What this machine offers, and what killed runs left on it."""

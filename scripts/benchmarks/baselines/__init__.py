"""Programs that a user might pick instead, on the same work."""

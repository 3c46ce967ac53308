"""Built-in scenarios that reproduce tables of the papers."""

"""Files of unknown origin."""

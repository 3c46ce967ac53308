"""One run from plan to run directory."""

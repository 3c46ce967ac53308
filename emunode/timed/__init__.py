"""The timed clock: port occupancy and virtual time."""

"""Interconnection networks, answered by arithmetic on one rank at a time."""

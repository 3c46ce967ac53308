"""Protocols between the rule of a rank and its ports: how a node makes sure that others get the segments of its rule."""

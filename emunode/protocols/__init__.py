"""Protocols between the rule of a rank and its ports: what one node does so that others get what its rule sends."""

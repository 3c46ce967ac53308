"""Nodes of an emulated interconnection network, and the host process that runs them."""

__version__ = "0.3.0"

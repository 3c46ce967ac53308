"""Collectives over spanning trees that a file gives."""

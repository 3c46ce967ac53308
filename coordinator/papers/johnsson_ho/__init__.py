"""Johnsson and Ho on the hypercube."""

"""Verification of certificate files, without the code that makes them."""

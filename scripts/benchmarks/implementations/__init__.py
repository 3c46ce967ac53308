"""Implementations that drive the same sockets, each a program that answers one question and ends."""

"""Ways to drive the same sockets, each a program of its own that answers one question and ends."""

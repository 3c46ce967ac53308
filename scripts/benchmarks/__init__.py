"""The cost of the sockets: `scripts/bench`. Nothing of the project imports this."""

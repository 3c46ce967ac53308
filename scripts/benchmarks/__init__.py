"""What the sockets cost: `scripts/bench`. Nothing of the project imports this."""

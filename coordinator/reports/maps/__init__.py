"""The network drawn on its layout, with the state of every node and link at each step."""

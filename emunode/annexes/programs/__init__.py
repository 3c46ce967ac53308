"""Programs that play nodes: one process for each node, asked by lines of text."""

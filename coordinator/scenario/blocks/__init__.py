"""Blocks: places of a network that fail together, such as a sub-star or a rack. One module per kind."""

"""Spanning trees as local parent and children functions at root 0."""

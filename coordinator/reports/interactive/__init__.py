"""The data behind the interactive part of a report: what the page answers about each node, packet and tree."""

"""The data behind the interactive part of a report: the answers of the page about each node, packet and tree."""

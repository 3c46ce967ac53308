"""Reliable links: the ends of a link that acknowledge segments and send them again."""

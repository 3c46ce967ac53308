"""What a run directory says, for people: a page, tables, and files for other programs."""

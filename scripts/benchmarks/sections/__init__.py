"""One module a section; each has a `SECTION`, and is found by being here."""

"""One module per section, each with a `SECTION`; modules are found by name."""

"""The command line: one module per command or pair of commands."""

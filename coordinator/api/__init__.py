"""The Python API behind `import coordinator`: the names that it exports, and what the command line shares with it."""

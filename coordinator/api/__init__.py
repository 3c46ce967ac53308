"""The Python API behind `import coordinator`: its exported names, and code that the command line shares with it."""

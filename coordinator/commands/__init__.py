"""Commands that take more than a few lines, one file each."""

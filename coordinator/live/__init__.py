"""A run that is watched and steered from a page in a browser: `coordinator run --watch`."""

"""Manifests: files for other programs that start a coordinator and its hosts."""

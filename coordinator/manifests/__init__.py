"""Manifests: files from which other programs start a coordinator and its hosts."""

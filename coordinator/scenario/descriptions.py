"""Descriptions of fields of a scenario that are also flags of commands without one, which start faster without the model."""

from typing import Final

PLUGIN: Final = "plug-in to execute: a file such as mine.py, or an installed module (repeatable)"

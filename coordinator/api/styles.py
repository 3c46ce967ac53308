"""Decides whether output may have styles, without importing rich."""

import os
from typing import TextIO

STYLED_BY = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables by which a user asks for styles outside of a terminal."""


def may_have_styles(stream: TextIO) -> bool:
    """Report whether rich may show styles on a stream; elsewhere it is not imported, which takes time."""
    return stream.isatty() or any(map(os.environ.get, STYLED_BY))

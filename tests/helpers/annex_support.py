"""Tests of what the tree has as a whole: they need every annex."""

from typing import Final

import pytest

from coordinator.annexes import BELONGS, installed
from emunode.annexes import ALGORITHMS, is_installed

MISSING: Final = sorted(
    {*BELONGS, *(annex for annex, _ in ALGORITHMS.values())}
    - {*installed()}
    - {annex for annex, _ in ALGORITHMS.values() if annex not in BELONGS and is_installed("emunode", annex)}
)


def needs_annex(name: str) -> pytest.MarkDecorator:
    """Skip a test without an annex."""
    return pytest.mark.skipif(name in MISSING, reason=f"without {name}")


needs_every_annex = pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}")

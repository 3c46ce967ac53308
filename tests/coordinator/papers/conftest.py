"""One run cache per module: its tests share runs."""

from collections.abc import Iterator

import pytest

from coordinator.papers.run_cache import RunCache, open_run_cache


@pytest.fixture(scope="module")
def run_cache() -> Iterator[RunCache]:
    with open_run_cache() as opened:
        yield opened

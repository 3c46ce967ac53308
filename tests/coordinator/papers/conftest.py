"""One run cache for each test process: the tests of all papers share runs."""

from collections.abc import Iterator

import pytest

from coordinator.papers.run_cache import RunCache, open_run_cache


@pytest.fixture(scope="session")
def run_cache() -> Iterator[RunCache]:
    with open_run_cache() as opened:
        yield opened

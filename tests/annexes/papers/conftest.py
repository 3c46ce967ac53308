"""One run cache for each test process, in memory: the tests of all papers share runs."""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import polars as pl
import pytest

from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.run_store import RunStore
from coordinator.execution.run import run
from coordinator.execution.sinks import MemoryRun, MemorySink
from coordinator.planning.plan import Plan
from tests.annexes.papers.support import Sections, carry_out


@dataclass(frozen=True)
class HeldRun(CachedRun):
    """A run without files: those take as long as the run itself."""

    result: MemoryRun

    def journal(self) -> pl.LazyFrame:
        """Return every hop."""
        return self.result.journal

    def table(self, name: str) -> pl.DataFrame:
        """Return the table `nodes`, `links` or `steps`."""
        table = self.result.conclusion.measurement.tables[name]
        assert table is not None
        return table


class MemoryRunCache(RunCache):
    """Runs each scenario once, without files."""

    def _make(self, plan: Plan, scenario: str) -> CachedRun:
        result = run(plan, MemorySink())
        return HeldRun(plan, result.summary, self.store.path(scenario), result.verdict, result)


@pytest.fixture(scope="session")
def run_cache() -> RunCache:
    return MemoryRunCache(RunStore(Path("nowhere"), None))


@pytest.fixture(scope="session")
def sections(run_cache: RunCache) -> Sections:
    """The sections of a reproduction at a size, built once: for tests that change none of its numbers."""
    return cache(partial(carry_out, run_cache))

"""Helpers of many tests: expected numbers from files, and runs of a scenario."""

import csv
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import overload

import polars as pl
import pytest
from hypothesis import settings

from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink, FinishedRun, MemoryRun, MemorySink, RunResult
from coordinator.planning.plan import Plan, make_plan
from coordinator.reports.pictures import Picture
from coordinator.scenario.model import make_scenario
from coordinator.scenario.named import name_values
from coordinator.scenario.plugins import load_plugins
from emunode.engine.memory import MemoryEngine
from emunode.engine.rank_set import AlteredCopy
from emunode.errors import ScenarioError
from emunode.play import play
from emunode.plugins import LOADED
from emunode.registry import withdraw
from tests.helpers.warm_programs import ROOT

GOLDEN = ROOT / "tests" / "golden"
REPEATABLE_EXAMPLES = 40
"""The number of Hypothesis examples of a property with `--all`, where a test does not state another."""


def draws_png() -> bool:
    """Whether pictures can be written as PNG here."""
    with TemporaryDirectory() as folder:
        try:
            Picture('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"/>', "").save(f"{folder}/picture.png")
        except ScenarioError:
            return False
        return find_spec("PIL") is not None


needs_png = pytest.mark.skipif(
    not draws_png(),
    reason="PNG needs the extra `report` and a font (Debian, Ubuntu: apt install fonts-dejavu-core)",
)


def examples(count: int) -> int:
    """Return the number of examples of a property that has `count` with `--all`, in proportion to other properties."""
    profile = settings.default
    assert profile is not None
    return max(1, count * profile.max_examples // REPEATABLE_EXAMPLES)


def golden_rows(family: str, name: str, **equal: object) -> list[dict[str, str]]:
    """Return the rows of a file of expected numbers, `tests/golden/<family>/<name>.csv`, whose columns have these values."""
    with (GOLDEN / family / f"{name}.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if all(row[key] == str(value) for key, value in equal.items())]


@overload
def run_scenario(out: Path, **values: object) -> RunResult: ...


@overload
def run_scenario(out: None = None, **values: object) -> MemoryRun: ...


def run_scenario(out: Path | None = None, **values: object) -> RunResult | MemoryRun:
    """Run a scenario, in memory unless `values` name another driver, without files or into `out`, without a report."""
    plan = _planned(values)
    return run(plan, MemorySink()) if out is None else run(plan, DirectorySink(out, draw=False))


def run_and_draw(out: Path, **values: object) -> RunResult:
    """Run a scenario like `run_scenario`, and draw its report: that takes as long as the run."""
    return run(_planned(values), DirectorySink(out))


def _planned(values: Mapping[str, object]) -> Plan:
    name_values(values)
    return make_plan(make_scenario({"driver": "memory", **values}))


@contextmanager
def loaded(*plugins: Path | str) -> Iterator[tuple[str, ...]]:
    """Provide the entries of a scenario for plug-ins that are loaded within the block and forgotten after it."""
    try:
        yield load_plugins([str(plugin) for plugin in plugins])
    finally:
        forget_plugins()


def forget_plugins(kept: Collection[str] = ()) -> None:
    """Withdraw every plug-in but those with these digests."""
    for digest in [each for each in LOADED if each not in kept]:
        withdraw(LOADED.pop(digest).additions)


def played(plan: Plan) -> tuple[bytearray, list[AlteredCopy]]:
    """Return the unsorted journal rows of a run in the memory engine, and its altered copies."""
    network = MemoryEngine(plan.algorithm)
    rows = bytearray().join(play(network, plan.faults, limit=10_000))
    assert not network.busy, "the run does not end"
    return rows, network.altered_copies


def row_fields(row: Mapping[str, str]) -> dict[str, object]:
    """The scenario of a row of a table: columns `topology`, `collective`, `algorithm`, and `options` such as `messages=3`.

    Several faults are joined by `&`.
    """
    options = dict(option.split("=", 1) for option in row["options"].split())
    scenario: dict[str, object] = {name: row[name] for name in ("topology", "collective", "algorithm")}
    scenario.update(options)
    if "fault" in options:
        scenario["fault"] = options["fault"].split("&")
    return scenario


def scenario_id(row: Mapping[str, str]) -> str:
    """Return the test id of such a row."""
    return "-".join((row["topology"], row["collective"], row["algorithm"], *row["options"].split()))


def run_journal(**values: object) -> tuple[MemoryRun, pl.DataFrame]:
    """Run a scenario without files, and return its journal too."""
    result = run_scenario(None, **values)
    return result, result.journal.collect()


def failures(result: FinishedRun) -> list[str]:
    """Return the claims that do not hold, as readable lines."""
    return [
        f"{judgement.claim.name}: measured {judgement.measured}, predicted {judgement.claim.relation} "
        f"{judgement.claim.predicted} ({judgement.claim.source})"
        for judgement in result.judgements
        if judgement.verdict != "holds"
    ]


def same_tables(one: RunResult, other: RunResult) -> bool:
    """Return whether two stored runs have equal tables, row by row."""
    return all(
        pl.read_parquet(one.path / f"{table}.parquet").equals(pl.read_parquet(other.path / f"{table}.parquet"))
        for table in ("journal", "nodes", "links", "steps")
    )

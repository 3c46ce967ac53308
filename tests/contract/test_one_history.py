"""A scenario has the same history on every driver, byte for byte: each row of `tests/golden/histories.csv` at its places."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from coordinator.annexes import merged
from coordinator.execution.sinks import FinishedRun
from coordinator.execution.verify import verify
from coordinator.results.tables import HOST_TRAFFIC
from coordinator.scenario.drivers import DRIVERS
from tests.helpers.command_line import ROOT
from tests.helpers.scenarios import Case
from tests.helpers.support import failures, golden_rows, same_tables

OF_THE_DRIVER = {"driver", "hosts", "wall_seconds", "setup_seconds", "links_opened", "replay_mismatches", *HOST_TRAFFIC}
"""Keys of a summary that may differ between drivers; only histories of hosts are replayed."""
TESTED_ELSEWHERE = {"docker": "test_docker.py", "join": "test_join.py"}
"""Drivers whose hosts this process cannot start."""
PLACES = [
    pytest.param(row["scenario"], place, id=f"{row['name']}, {place}")
    for row in golden_rows("", "histories")
    for place in row["places"].split("|")
    if "driver=local" in place
]
NEVER_TOO_LATE = {"lateness_limit": 1.0, "worst_lateness_limit": 1e9}
INTENDED = ["step", "sender", "port", "receiver", "bytes", "start", "end"]


def facts(result: FinishedRun) -> dict[str, Any]:
    """Return the summary of what happened, without what depends on the driver."""
    assert result.summary.get("replay_mismatches", 0) == 0
    kept: dict[str, Any] = {key: value for key, value in result.summary.items() if key not in OF_THE_DRIVER}
    return kept | {"claims": [claim for claim in kept["claims"] if claim["name"] not in OF_THE_DRIVER]}


def test_every_driver_is_tested() -> None:
    assert set(DRIVERS) == {"memory", "local", *TESTED_ELSEWHERE, *merged("drivers")}
    networks = ROOT / "tests" / "coordinator" / "networks"
    assert all((networks / name).exists() for name in TESTED_ELSEWHERE.values())


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize(("line", "place"), [each for each in PLACES if "clock=timed" not in str(each.values[0])])
def test_hosts_have_the_history_of_memory(line: str, place: str) -> None:
    memory, hosts = Case(line), Case(f"{line} {place}")
    topology = memory.plan.topology
    assert facts(hosts.run) == facts(memory.run)
    assert hosts.summary["links_opened"] == topology.link_count
    if size := hosts.values.get("ranks_per_host"):
        assert hosts.summary["hosts"] == -(-topology.order // int(str(size)))


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(("line", "place"), [each for each in PLACES if "clock=timed" in str(each.values[0])])
def test_hosts_in_time_have_the_history_of_memory(line: str, place: str, tmp_path: Path) -> None:
    """Whatever the machine does: all that it may be is late."""
    memory = Case(line).stored(tmp_path / "memory")
    local = Case(f"{line} {place}", **NEVER_TOO_LATE).stored(tmp_path / "local")
    assert same_tables(memory, local)
    assert local.summary["journal_hash"] == memory.summary["journal_hash"]
    assert local.summary["illegal_hops"] == local.summary["early_hops"] == 0
    # A run that was far too late is not replayed.
    assert local.summary.get("replay_mismatches", 0) == 0
    one, other = (pl.read_parquet(result.path / "timeline.parquet") for result in (memory, local))
    assert one.select(INTENDED).equals(other.select(INTENDED))
    assert other["started"].null_count() == 0
    assert (other["started"] >= other["start"]).all()
    assert (other["ended"] >= other["end"]).all()
    assert other["ended"].is_null().equals(other["end"].is_null())
    assert "late" in str(local.summary["undecided_because"]) or failures(memory) == failures(local)
    assert not failures(memory) or memory.exit_status == 3
    assert verify(memory.path).findings == []


def test_histories_differ_where_scenarios_do() -> None:
    hashes = [Case(row["scenario"]).summary["journal_hash"] for row in golden_rows("", "histories", kind="broadcast")]
    assert len(set(hashes)) == len(hashes)

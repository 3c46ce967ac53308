"""Processes that are killed and stopped under the timed clock, and what ends such a run early."""

from pathlib import Path

import psutil
import pytest

from coordinator.networks.launchers.local import LocalLaunch
from coordinator.networks.timed_process_faults import ProcessFate, fate_of
from emunode.faults.effects import ALWAYS, Interval
from emunode.faults.in_time import FaultsInTime, TimedFault
from emunode.faults.kinds import Crash, Hang, Recover
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import fields
from tests.helpers.support import run_scenario

CUBE = parse_topology("hypercube:3")
VALUES = fields("hypercube:3 broadcast sbt segments=4 clock=timed startup=40ms per_byte=0s")
ONE_EACH = {"driver": "local", "ranks_per_host": 1, "lateness_limit": 1.0, "worst_lateness_limit": 1e9}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return what was done to processes: the name of the method and the host."""
    done: list[tuple[str, int]] = []
    for name in ("kill", "pause", "resume"):
        method = getattr(LocalLaunch, name)

        async def noted(self: LocalLaunch, host: int, pid: int, name: str = name, method: object = method) -> None:
            assert psutil.Process(pid).is_running()
            done.append((name, host))
            await method(self, host, pid)  # type: ignore[operator]

        monkeypatch.setattr(LocalLaunch, name, noted)
    return done


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (["crash:101@90ms"], [("kill", 5)]),
        # A busy machine comes to it late, and a hang that is over by then stops no process.
        (["hang:001@60ms-4s"], [("pause", 1), ("resume", 1)]),
        (["hang:111@100ms"], [("pause", 7), ("kill", 7)]),
        (["crash:101@90ms", "recover:101@120ms"], []),
        (["crash:101@9s"], []),
    ],
)
def test_processes_suffer_the_faults_of_their_ranks(
    faults: list[str], expected: list[tuple[str, int]], sent: list[tuple[str, int]], tmp_path: Path
) -> None:
    memory = run_scenario(tmp_path / "memory", **VALUES, fault=faults)
    local = run_scenario(tmp_path / "local", **VALUES, **ONE_EACH, fault=faults)
    assert local.summary["journal_hash"] == memory.summary["journal_hash"]
    assert "disconnected" not in str(local.summary["undecided_because"])
    assert sent == expected
    assert not psutil.Process().children()


def test_a_hang_that_outlasts_the_run_does_not_prolong_it(sent: list[tuple[str, int]], tmp_path: Path) -> None:
    values = VALUES | {"startup": "200ms"}
    result = run_scenario(tmp_path / "run", **values, **ONE_EACH, fault=["hang:111@500ms-9999s"])
    assert sent == [("pause", 7), ("resume", 7)]
    assert result.summary["achieved_seconds"] < 9999  # type: ignore[operator]


def test_a_process_shares_the_fate_of_all_its_ranks() -> None:
    def fate(*faults: TimedFault) -> ProcessFate:
        return fate_of(range(2, 4), FaultsInTime(CUBE, 1, faults))

    two, three = (TimedFault(5, ALWAYS, Crash(1, rank)) for rank in (2, 3))
    assert fate(two, three) == ProcessFate(5, ())
    assert fate(two) == ProcessFate(None, ())
    assert fate(two, TimedFault(6, ALWAYS, Crash(1, 3))) == ProcessFate(None, ())
    back = [TimedFault(9, ALWAYS, Recover(1, rank)) for rank in (2, 3)]
    assert fate(two, three, *back) == ProcessFate(None, ())
    hangs = [TimedFault(5, 8, Hang(1, rank)) for rank in (2, 3)]
    assert fate(*hangs) == ProcessFate(None, (Interval(5, 8),))
    assert fate(hangs[0]) == ProcessFate(None, ())
    assert fate(*hangs, two._replace(start=9), three._replace(start=9)) == ProcessFate(9, (Interval(5, 8),))

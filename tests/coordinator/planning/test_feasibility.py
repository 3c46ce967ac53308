"""Plans that need much or too much: a warning before the run, or a refusal."""

import shlex
import warnings
from pathlib import Path

import pytest

import coordinator as tb
from coordinator.planning import machine
from coordinator.planning.feasibility import warning, why_impossible
from tests.helpers.command_line import Call, fresh, run_process
from tests.helpers.command_line import command as words_of
from tests.helpers.scenarios import Case


def test_a_run_that_moves_more_than_it_delivers_warns(call: Call) -> None:
    plan = Case("ej:2+3^2 allgather three-phase-restart-own").plan
    text = warning(plan)
    assert text is not None
    assert "at least 4,730,544 segments for 129,960 deliveries, 36 for each" in text
    assert warning(Case("star:6 alltoall near-balanced-tree").plan) is None
    assert warning(Case("ej:2+3 allgather three-phase-restart-own").plan) is None
    flags = "--topology ej:2+3^2 --collective allgather --algorithm three-phase-restart-own --driver memory"
    for command in ("plan", "run --step-limit 1 --out run", "sweep --step-limit 1"):
        shown = flags.replace(" --driver memory", "") if command.startswith("sweep") else flags
        ended = call(f"{command} {shown}")
        assert "4,730,544 segments for 129,960 deliveries" in ended.err
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tb.network("ej:2+3^2").allgather("three-phase-restart-own", step_limit=1)
    (only,) = [each for each in caught if each.category is RuntimeWarning]
    assert only.filename == __file__


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_run_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Case("star:6 alltoall near-balanced-tree").plan
    assert why_impossible(plan) is None
    monkeypatch.setattr(machine, "process_memory", lambda: 2**28)
    assert "needs about 0.6 GiB of memory and 0.2 GiB are free" in str(why_impossible(plan))


@pytest.mark.parametrize("driver", ["memory", "local"])
def test_too_few_addresses_are_named(driver: str, tmp_path: Path) -> None:
    """Polars would abort the process, and leave a partial folder."""
    line = f"coordinator run --topology star:3 --collective broadcast --algorithm flood --driver {driver} --out there"
    ended = run_process(tmp_path, ["bash", "-c", f"ulimit -v 700000; exec {shlex.join(fresh(words_of(line)))}"])
    assert ended.status == 4
    assert "and its libraries take 800 MiB of addresses; raise ulimit -v or -d" in ended.err
    assert list(tmp_path.iterdir()) == []

"""An interrupted reproduction continues where it stopped, and trusts only runs of its own."""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from coordinator.annexes.papers import run_store
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.run_store import FOLDER, open_run_store
from coordinator.cli.invoke import main
from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink, RunResult
from coordinator.networks.base import Progress
from coordinator.planning.plan import Plan
from emunode.errors import ScenarioError
from tests.helpers.command_line import run_process

PAPER = ["reproduce", "hussain-figures"]
BROADCAST = {"topology": "star:3", "collective": "broadcast", "algorithm": "greedy-tree"}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that are really made."""
    names: list[str] = []

    def counted(plan: Plan, sink: DirectorySink, progress: Progress) -> RunResult:
        names.append(plan.name)
        return run(plan, sink, progress)

    monkeypatch.setattr("coordinator.annexes.papers.run_cache.run", counted)
    return names


def interrupt_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during the run of this number."""
    names: list[str] = []

    def interrupted(plan: Plan, sink: DirectorySink, progress: Progress) -> RunResult:
        names.append(plan.name)
        if len(names) == number:
            signal.raise_signal(signal.SIGINT)
        return run(plan, sink, progress)

    monkeypatch.setattr("coordinator.annexes.papers.run_cache.run", interrupted)


def files_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_an_interrupted_reproduction_continues_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*PAPER, "--out", str(tmp_path / "whole")]) == 0
    total = int(re.findall(r"^(\d+) runs", capsys.readouterr().out, re.MULTILINE)[0])
    out = tmp_path / "parts"
    with monkeypatch.context() as patch:
        interrupt_at(3, patch)
        assert main([*PAPER, "--out", str(out)]) == 130
    assert len([*(out / FOLDER).glob("*.json")]) == 2
    assert f"the same command continues with the runs in {out / FOLDER}" in capsys.readouterr().err
    capsys.readouterr()
    assert main([*PAPER, "--out", str(out)]) == 0
    output = capsys.readouterr()
    assert f"reproduce: {total} runs, 2 of them kept from before, about" in output.err
    assert f"{total} runs (2 kept from before), " in output.out
    assert files_of(out) == files_of(tmp_path / "whole")
    assert not (out / FOLDER).exists()


KILLED_AFTER_THREE = """
import os, signal, sys
from coordinator.cli.invoke import main
from coordinator.annexes.papers.run_store import RunStore

keep, kept = RunStore.keep, []

def keep_and_die(self, scenario):
    keep(self, scenario)
    kept.append(scenario)
    if len(kept) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

RunStore.keep = keep_and_die
main(sys.argv[1:])
"""


def test_a_killed_process_leaves_its_runs(tmp_path: Path, made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = [*PAPER, "--out", str(out)]
    ended = run_process(tmp_path / "elsewhere", [sys.executable, "-c", KILLED_AFTER_THREE, *arguments])
    assert ended.status == -signal.SIGKILL
    assert len([*(out / FOLDER).glob("*.json")]) == 3
    assert main(arguments) == 0
    announced = re.search(r"reproduce: (\d+) runs, 3 of them kept from before", capsys.readouterr().err)
    assert announced
    assert len(made) == int(announced[1]) - 3
    assert not (out / FOLDER).exists()


def keep_one(out: Path) -> Path:
    """Keep one run in a store as an interrupted process does; returns its folder."""
    with suppress(KeyboardInterrupt), open_run_store(out) as store:
        trial = RunCache(store).run(**BROADCAST)
        raise KeyboardInterrupt
    return trial.path


def runs_needed(out: Path, made: list[str]) -> int:
    made.clear()
    with open_run_store(out) as store:
        trial = RunCache(store).run(**BROADCAST)
        assert trial.series("receivers_per_step") == [2, 2, 1]
        assert len(trial.journal().collect()) == 5
    return len(made)


def test_a_kept_run_is_used_again_once_the_same_user_asks_for_it(tmp_path: Path, made: list[str], state: Path) -> None:
    keep_one(tmp_path)
    (key,) = state.rglob(run_store.KEY_FILE)
    assert key.stat().st_mode & 0o777 == 0o600
    assert runs_needed(tmp_path, made) == 0


def alter_journal(path: Path) -> None:
    data = bytearray((path / "journal.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "journal.parquet").write_bytes(data)


def alter_summary(path: Path) -> None:
    text = (path / "summary.json").read_text()
    (path / "summary.json").write_text(text.replace('"steps": 3', '"steps": 2'))


def alter_record(path: Path) -> None:
    record = path.with_name(f"{path.name}.json")
    values = json.loads(record.read_text())
    values["scenario"] = values["scenario"].replace("star:3", "star:4")
    record.write_text(json.dumps(values))


def truncate_record(path: Path) -> None:
    record = path.with_name(f"{path.name}.json")
    record.write_text(record.read_text()[:100])


def remove_file(path: Path) -> None:
    (path / "nodes.parquet").unlink()


def link_file(path: Path) -> None:
    copied = path.parent.parent / "copied.parquet"
    shutil.move(path / "nodes.parquet", copied)
    (path / "nodes.parquet").symlink_to(copied)


def pipe_file(path: Path) -> None:
    (path / "links.parquet").unlink()
    os.mkfifo(path / "links.parquet")


def replace_key(path: Path) -> None:  # noqa: ARG001  # the record is of another user
    (key,) = Path(os.environ["XDG_STATE_HOME"]).rglob(run_store.KEY_FILE)
    key.write_bytes(b"k" * run_store.KEY_BYTES)


DAMAGES = (
    alter_journal, alter_summary, alter_record, truncate_record, remove_file, link_file, pipe_file, replace_key,
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_or_foreign_run_is_made_again(
    damage: Callable[[Path], None], tmp_path: Path, made: list[str]
) -> None:
    damage(keep_one(tmp_path))
    assert runs_needed(tmp_path, made) == 1


def test_a_run_of_another_version_or_source_is_made_again(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("__version__", "0.0.1"), ("_source", lambda: "0" * 64), ("LOADED", {"1": None})):
        with monkeypatch.context() as patch:
            patch.setattr(run_store, name, value)
            keep_one(tmp_path)
        assert runs_needed(tmp_path, made) == 1, name


def test_a_run_is_found_only_by_its_own_scenario(tmp_path: Path, made: list[str]) -> None:
    """A valid run under the name of another scenario."""
    path = keep_one(tmp_path)
    with suppress(KeyboardInterrupt), open_run_store(tmp_path) as store:
        other = RunCache(store).run("star:3", "broadcast", "flood").path
        raise KeyboardInterrupt
    for source, target in ((other, path), (other.with_name(f"{other.name}.json"), path.with_name(f"{path.name}.json"))):
        shutil.rmtree(target) if target.is_dir() else target.unlink()
        source.rename(target)
    assert runs_needed(tmp_path, made) == 1


def test_undecided_runs_are_made_again(tmp_path: Path, made: list[str]) -> None:
    for _ in range(2):
        with suppress(KeyboardInterrupt), open_run_store(tmp_path) as store:
            RunCache(store).run(**BROADCAST, step_limit=1)
            raise KeyboardInterrupt
    assert len(made) == 2


def test_other_files_in_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "notes.txt").write_text("mine")
    with open_run_store(tmp_path) as store:
        RunCache(store).run(**BROADCAST)
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["notes.txt"]


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    with open_run_store(tmp_path), pytest.raises(ScenarioError, match="another process is reproducing into it"):
        open_run_store(tmp_path).__enter__()

"""The campaign folder: finished trials are neither lost nor repeated, unfinished ones do not count."""

import json
from pathlib import Path

import networkx
import pytest

from coordinator.campaigns.grid import Grid, Key
from coordinator.campaigns.store import RECORDS, Store, read_grid
from coordinator.campaigns.trial_runner import Trial, TrialResult
from emunode.errors import ScenarioError
from tests.helpers.command_line import fields

BASE = fields("star:3 broadcast edt driver=memory")
FOUND = TrialResult(5, 5, 5, 320, 0, 0, 0, 5, 5, 5, (), 1, 5, (), None, "00", (1, 5))


def grid_of(faults: str = "nodes=1", trials: int = 10) -> Grid:
    """Return a small grid."""
    return Grid(BASE, {}, [faults], trials)


def filled(folder: Path, count: int, grid: Grid | None = None) -> list[tuple[Key, Trial]]:
    """Return a campaign with some finished trials, and their records."""
    grid = grid or grid_of()
    todo = list(grid.rest({}))[:count]
    with Store(folder, grid) as store:
        for key, trial in todo:
            store.add(key, trial, FOUND)
    return todo


def test_records_round_trip(tmp_path: Path) -> None:
    todo = filled(tmp_path / "campaign", 3)
    with Store(tmp_path / "campaign", grid_of()) as store:
        assert store.findings == {key: (trial, FOUND) for key, trial in todo}
        assert store.done() == {(0, 0): {0: True, 1: True, 2: True}}
        assert len(list(store.grid.rest(store.done()))) == 7


def test_a_network_from_a_file_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    networkx.write_graphml(networkx.wheel_graph(5), tmp_path / "wheel.graphml")
    written: list[str] = []
    monkeypatch.setattr("coordinator.scenario.networks.write_network", lambda path, _: written.append(path.name))
    base = fields(f"file:{tmp_path}/wheel.graphml broadcast flood driver=memory")
    grid = Grid(base, {"messages": [1, 2, 3], "algorithm": ["flood", "bfs-tree"]}, ["nodes=1"], 10)
    with Store(tmp_path / "campaign", grid) as store:
        assert len(grid.variants) == 6
        names = {str(store.kept_network(variant.scenario)["topology"]) for variant in grid.variants}
    assert [f"file:{name}" for name in written] == list(names)


def test_incomplete_record_is_dropped(tmp_path: Path) -> None:
    """Any part of the last line is dropped, and the next record starts a new line."""
    todo = filled(tmp_path, 3)
    records = tmp_path / RECORDS
    whole = records.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    for cut in (1, 2, last // 2, last - 1):
        records.write_bytes(whole[:-cut])
        with Store(tmp_path, grid_of()) as store:
            assert len(store.findings) == 2
            store.add(*todo[2], FOUND)
        assert records.read_bytes() == whole
        assert [json.loads(line)["number"] for line in records.read_text().splitlines()] == [0, 1, 2]


def test_a_campaign_of_another_grid_is_left_alone(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ScenarioError, match="another grid or scenario"), Store(tmp_path, grid_of("nodes=2")):
        pass
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with Store(tmp_path, grid_of(trials=20)) as store:  # more of the same is the same campaign
        assert len(store.findings) == 3


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(ScenarioError, match="not a campaign folder"), Store(tmp_path, grid_of()):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_one_campaign_at_a_time(tmp_path: Path) -> None:
    second = Store(tmp_path, grid_of())
    with Store(tmp_path, grid_of()), pytest.raises(ScenarioError, match="another process is running"):
        second.__enter__()
    filled(tmp_path, 1)


def test_the_grid_can_be_read_back(tmp_path: Path) -> None:
    grid = Grid({**BASE, "fault": ["crash:132@4"]}, {"redundancy": [1, 2]}, ["nodes=0..1", "links=1"], 7, 0.25)
    filled(tmp_path, 1, grid)
    again = read_grid(tmp_path)
    assert again == grid
    assert again.fingerprint == grid.fingerprint

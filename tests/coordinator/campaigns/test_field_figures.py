"""The figures of papers in the rows of campaigns; that both engines agree on them is in `test_batch_trials.py`."""

import pytest

from coordinator.campaigns.field_figures import INFORMED
from coordinator.campaigns.grid import Grid
from coordinator.campaigns.session import run_campaign
from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.tables import CampaignRow, rows
from tests.helpers.command_line import fields

BASE = fields("star:4 broadcast edt redundancy=3 driver=memory")


def row_of(faults: str, engine: str = "exact", **more: object) -> CampaignRow:
    store = FinishedTrials(Grid({**BASE, **more}, {}, [faults], 2000, None, engine))
    run_campaign(store, 1, lambda *_: None)
    [row] = rows(store)
    return row


@pytest.mark.parametrize(("size", "sets", "survived", "lost"), [(2, 253, 253, 0), (3, 1771, 1430, 567)])
def test_failure_rates_over_all_sets_are_the_enumerated_ones(size: int, sets: int, survived: int, lost: int) -> None:
    row = row_of(f"all:nodes={size}")
    assert row["tfr_one_to_one"] == pytest.approx(lost / (sets * (23 - size)), abs=1e-9)
    assert row["tfr_one_to_all"] == pytest.approx(1 - survived / sets, abs=1e-9)


@pytest.mark.parametrize("engine", ["exact", "messages"])
def test_two_crashes_stretch_the_broadcast(engine: str) -> None:
    row = row_of("nodes=0", engine, fault=["crash:2134@1", "crash:1342@1"])
    assert row["mean_latency"] == pytest.approx(65 / 21, abs=1e-9)
    assert (row["max_latency"], row["stretch"]) == (5, 1.25)
    assert row[INFORMED] == (1, 3, 7, 14, 20, 22)


def test_trials_without_a_served_node_have_no_latency() -> None:
    """The only path of a line is cut at the source: nobody is served."""
    row = row_of("nodes=0", topology="mesh:3", algorithm="bfs-tree", redundancy=1, fault=["down:0~1@1"])
    assert (row["mean_latency"], row["max_latency"], row["stretch"]) == (None, None, None)
    assert (row["tfr_one_to_one"], row["tfr_one_to_all"], row[INFORMED]) == (1, 1, (1,))


def test_a_collective_without_one_source_has_no_failure_rates() -> None:
    row = row_of("nodes=1", collective="allgather", algorithm="rotated-trees", redundancy=1, topology="star:3")
    assert row["tfr_one_to_one"] is row["tfr_one_to_all"] is row[INFORMED] is None
    assert isinstance(row["stretch"], float)

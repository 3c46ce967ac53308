"""Campaigns by the batch engine: same figures as with messages, resumed anywhere, checked by a sample."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from coordinator.api.console import on_stderr
from coordinator.campaigns import batch_trials, engines
from coordinator.campaigns.batch_trials import CampaignSession
from coordinator.campaigns.counts import BlockRecord, DrawBlock, total
from coordinator.campaigns.grid import Grid, Key
from coordinator.campaigns.losses import loss_rows, worst_rows
from coordinator.campaigns.session import phase_of, run_campaign
from coordinator.campaigns.statistics import half_width_of
from coordinator.campaigns.store import RECORDS, FinishedTrials, Store, read_grid
from coordinator.campaigns.tables import CampaignRow, rows
from coordinator.campaigns.trial_runner import TrialResult
from coordinator.history.stored.records import read_record
from coordinator.theory.batch.draws import BLOCK
from emunode.algorithms.star.edge_disjoint import DisjointTreesBroadcast
from emunode.errors import RunError, ScenarioError
from tests.helpers.command_line import fields

BASE = fields("star:4 broadcast edt redundancy=3 driver=memory")


def grid_of(*faults: str, trials: int = 300, engine: str = "auto", **more: object) -> Grid:
    """Return a grid of broadcasts over three trees in S_4."""
    given = {name: more.pop(name) for name in ("precision", "vary") if name in more}
    vary = given.get("vary", {})
    return Grid({**BASE, **more}, vary, list(faults), trials, given.get("precision"), engine)  # type: ignore[arg-type]


def done(grid: Grid, store: FinishedTrials | None = None) -> tuple[FinishedTrials, CampaignSession]:
    """Run a campaign, in memory unless it has a store."""
    store = store or FinishedTrials(grid)
    return store, run_campaign(store, 1, lambda *_: None)


def figures(store: FinishedTrials) -> list[CampaignRow]:
    """Return the rows without what depends on the engine."""
    return [
        {key: value for key, value in row.items() if key not in ("engine", "again", "predicted")} for row in rows(store)
    ]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("faults", "more"),
    [
        (["all:nodes=2", "nodes=3", "links=4@2-3"], {}),
        (["loss=3:0.4", "nodes=1;byzantine=1"], {"fault": ["hang:2134@2-3"]}),
        (["bernoulli:nodes=0.1;loss=0.1:0.5"], {"redundancy": 1, "segments": 2, "messages": 2}),
        (
            ["nodes=1@3"],
            {"collective": "allgather", "algorithm": "rotated-trees", "redundancy": 1, "topology": "star:3"},
        ),
        (["nodes=1"], {"collective": "reduce", "algorithm": "greedy-tree", "redundancy": 1}),
        (["silent=2", "silent=1;equivocate=1;byzantine=1@2-3"], {"fault": ["silent:2134@3"]}),
        (["silent=2"], {"collective": "reduce", "algorithm": "greedy-tree", "redundancy": 1}),
    ],
)
def test_figures_are_those_of_messages(
    faults: list[str], more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "MOST_SAMPLE", 20)
    exact, session = done(grid_of(*faults, trials=25, **more))
    plain, _ = done(grid_of(*faults, trials=25, engine="messages", **more))
    assert session.exact_trials == 25 * len(faults)
    assert figures(exact) == figures(plain)
    assert loss_rows(exact) == loss_rows(plain)
    assert worst_rows(exact, 3)[:1] == worst_rows(plain, 3)[:1]
    assert {row["engine"] for row in rows(exact)} == {"exact"}
    assert all(row["again"] >= 20 for row in rows(exact))  # type: ignore[operator]


def test_a_point_with_few_trials_runs_with_messages() -> None:
    grid = grid_of("nodes=0..1", trials=101)
    assert [grid.exact(point, 0) for point in (0, 1)] == [False, True]
    assert "no more than a sample" in str(grid.why_messages(0, 0))


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_killed_campaign_is_resumed_at_its_last_block(
    tmp_path: Path, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "MOST_SAMPLE", 10)
    grid = grid_of("nodes=3", trials=2 * BLOCK + 500)
    with Store(tmp_path, grid) as store:
        done(grid, store)
        expected = rows(store)
    lines = (tmp_path / RECORDS).read_bytes().splitlines(keepends=True)
    assert [b"block" in line for line in lines[:4]] == [True, True, True, False]
    # The process was killed in the middle of a line.
    (tmp_path / RECORDS).write_bytes(b"".join(lines[:cut]) + lines[cut][:40])
    again = read_grid(tmp_path)
    with Store(tmp_path, again) as store:
        _, session = done(again, store)
        assert session.exact_trials == 2 * BLOCK + 500 - cut * BLOCK
        assert rows(store) == expected
    with Store(tmp_path, again) as store:
        _, session = done(again, store)
        assert (session.exact_trials, session.trials, rows(store)) == (0, 0, expected)


def test_more_trials_extend_a_campaign(tmp_path: Path) -> None:
    for trials in (200, 5000):
        grid = grid_of("nodes=3", "all:nodes=3", trials=trials, engine="exact")
        with Store(tmp_path, grid) as store:
            done(grid, store)
            found = rows(store)
    assert [row["trials"] for row in found] == [5000, 1771]
    assert found[1]["guaranteed"] == round(1430 / 1771, 9)
    whole, _ = done(grid_of("nodes=3", "all:nodes=3", trials=5000, engine="exact"))
    # The sample that was run again with messages grew with the campaign.
    assert [{**row, "again": 0} for row in rows(whole)] == [{**row, "again": 0} for row in found]


def test_a_point_ends_when_it_is_precise() -> None:
    grid = grid_of("nodes=3", trials=100_000, precision=0.01, vary={"redundancy": [2, 3]}, engine="exact")
    store, _ = done(grid)
    counts = [store.counts(0, variant, []) for variant in range(2)]
    assert {each.trials for each in counts} == {3 * BLOCK}
    widths = [half_width_of(each.served, each.decided) for each in counts]
    assert max(widths) <= 0.01
    before = [total(store.evaluated(0, variant)[:-1]) for variant in range(2)]
    assert max(half_width_of(each.served, each.decided) for each in before) > 0.01


def test_a_different_result_fails_the_campaign() -> None:
    grid = grid_of("nodes=3")

    def altered(store: FinishedTrials, key: Key, trial: object, result: TrialResult) -> None:
        store.findings[key] = trial, TrialResult(**{**vars(result), "intact": result.intact - (key.number == 7)})  # type: ignore[assignment]

    with (
        patch.object(FinishedTrials, "add", altered),
        pytest.raises(RunError, match=r"disagree: .*draw 7 \(crash.*intact is"),
    ):
        done(grid)


def test_a_broken_promise_is_counted_and_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,771 sets 341 lose a node to a third crash; in one of them nothing arrives, and no claim is decided."""
    monkeypatch.setattr(DisjointTreesBroadcast, "tolerated_faults", property(lambda self: self.spec.redundancy))
    store, _ = done(grid_of("all:nodes=3", "all:nodes=2;links=1", trials=20_000))
    found = rows(store)
    assert found[0]["violated"] == 340
    plain, _ = done(grid_of("all:nodes=2;links=1", trials=9108, engine="messages", topology="star:3", redundancy=2))
    exact, _ = done(grid_of("all:nodes=2;links=1", trials=9108, engine="exact", topology="star:3", redundancy=2))
    violated: Any = rows(exact)[0]["violated"]
    assert rows(plain)[0]["violated"] == violated > 0
    broken = [key for key, (_, result) in store.findings.items() if result.violated and key.point == 0]
    assert len(broken) >= 3


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"algorithm": "flood", "redundancy": 1}, "decides during the run"),
        ({"fault_knowledge": "neighbours"}, "know faults"),
    ],
)
def test_exact_is_refused_where_it_is_not(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as raised:
        grid_of("nodes=1", engine="exact", **more).check()
    assert raised.value.field == "engine"
    grid = grid_of("nodes=1", **more)
    assert not grid.exact(0, 0)
    with pytest.raises(ScenarioError, match="auto, exact, messages"):
        grid_of("nodes=1", engine="fast")


def test_records_of_blocks_round_trip() -> None:
    store, _ = done(grid_of("bernoulli:nodes=0.2", trials=500, engine="exact"))
    (block,) = store.evaluated(0, 0)
    assert DrawBlock.of_record(read_record(BlockRecord, block.record())) == block
    assert block.worst == sorted(block.worst, key=lambda each: (-each[0], each[1]))


def test_some_trials_are_repeated_over_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_trials, "MANY_TRIALS", 200)
    grid = grid_of("nodes=2", trials=200, topology="star:3", redundancy=2)
    store, session = done(grid)
    assert set(store.sockets) == {Key(0, 0, 0), Key(0, 0, 1)}
    assert session.finished
    for key, result in store.sockets.items():
        assert result.journal_hash == store.findings[key][1].journal_hash


def test_one_bar_goes_over_all_phases() -> None:
    shown: list[str] = []
    for number in (1, 2, 3):
        phase_of(lambda text, done, total: shown.append(f"{text} {done}/{total}"), number, [2, 6, 2])("trials", 30, 60)
    assert [text.partition(":")[0].strip("█░ ") for text in shown] == ["1 of 3", "2 of 3", "3 of 3"]
    assert [text.count("█") for text in shown] == [2, 10, 18]
    assert {text.count("█") + text.count("░") for text in shown} == {20}


def test_an_interrupt_says_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), on_stderr("campaign", "finished trials are kept"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "campaign: interrupted; finished trials are kept\n"

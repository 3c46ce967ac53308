"""Runs by the Python API: results, files, errors, and what is left behind."""

import gc
import re
import tempfile
import threading
from pathlib import Path
from typing import Any

import networkx
import polars as pl
import psutil
import pytest

import coordinator as tb
from tests.helpers.command_line import Call

EDT: dict[str, Any] = {"algorithm": "edt", "redundancy": 3, "faults": ["crash:4231@2"]}


@pytest.fixture(scope="module")
def star() -> tb.Network:
    return tb.network("star:4")


# --- results ---------------------------------------------------------------------------------------------------------


def test_a_run_in_memory_has_the_results_of_the_command(star: tb.Network, call: Call) -> None:
    run = star.broadcast(**EDT)
    edt = "--algorithm edt --redundancy 3 --fault crash:4231@2 --driver memory"
    assert call(f"run --topology star:4 --collective broadcast {edt} --out stored").status == 0
    stored = tb.Run.read("stored")
    assert (run.verdict, run.ok, run.exit_status, run.undecided, run.notes) == ("holds", True, 0, None, [])
    for table in ("journal", "nodes", "links", "steps", "claims"):
        assert getattr(run, table).equals(getattr(stored, table)), table
    assert (run.faults, run.scenario) == (stored.faults, stored.scenario)
    times = ("wall_seconds", "setup_seconds")
    assert {**run.summary, **dict.fromkeys(times)} == {**stored.summary, **dict.fromkeys(times)}
    assert {name: table.schema for name, table in (("links", run.links), ("nodes", run.nodes))} == {
        name: pl.read_parquet_schema(f"stored/{name}.parquet") for name in ("links", "nodes")
    }


def test_claims_about_steps_are_series(star: tb.Network) -> None:
    claims = star.broadcast("flood").claims
    (series,) = claims.filter(name="receivers_per_step").rows(named=True)
    assert series["predicted"] is None
    assert series["predicted_series"] == series["measured_series"] == [3, 6, 9, 5]


def test_times_may_be_numbers_of_seconds(star: tb.Network) -> None:
    numbers = star.broadcast("flood", clock="timed", startup=0.002, per_byte=1e-6)
    texts = star.broadcast("flood", clock="timed", startup="2ms", per_byte="1us")
    assert numbers.scenario == texts.scenario
    assert numbers.timeline is not None
    assert texts.timeline is not None
    assert numbers.timeline.equals(texts.timeline)
    assert numbers.timeline["end"].max() == pytest.approx(4 * 0.002064)


def test_altered_copies_are_voted_on(star: tb.Network) -> None:
    run = star.broadcast("edt", redundancy=3, faults="byzantine:2134")
    assert run.elections is not None
    assert set(run.elections["elected"]) == {"right"}
    assert run.links.height == 72


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"faults": "crash:1234@1"}, "the source 1234 is crashed"),
        ({"step_limit": 2}, "step limit of 2"),
    ],
)
def test_an_undecided_run_says_why_and_holds_what_there_is(
    star: tb.Network, options: dict[str, Any], reason: str
) -> None:
    run = star.broadcast("greedy-tree", **options)
    assert (run.verdict, run.exit_status, run.ok) == ("undecided", 3, False)
    assert reason in (run.undecided or "")
    assert reason in repr(run)
    assert set(run.claims["verdict"]) <= {"undecided", "holds"}
    assert run.nodes.height == 24
    assert (run.journal.height > 0) == ("step_limit" in options)


# --- networks --------------------------------------------------------------------------------------------------------


def test_a_graph_of_networkx_is_run_and_saved(tmp_path: Path) -> None:
    net = tb.network(networkx.petersen_graph(), name="petersen")
    run = net.broadcast("flood", source="3")
    assert run.ok
    assert run.nodes.filter(pl.col("received") == 1).height == 9
    saved = run.save(tmp_path / "run")
    assert tb.verify(saved).verified
    assert tb.Run.read(saved).journal.equals(run.journal)
    again = tb.network(saved / "network.json").broadcast("flood", source="3")
    assert again.summary["journal_hash"] == run.summary["journal_hash"]


def test_a_network_has_its_properties_and_a_picture(star: tb.Network) -> None:
    assert (star.name, star.order, star.degree, star.labels[1]) == ("star:4", 24, 3, "2134")
    assert repr(star) == "<network star:4: 24 nodes>"
    assert tb.network(star.topology).name == "star:4"
    assert (star._repr_svg_() or "").count("<circle") == 24


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"algorithm": "edt", "redundance": 3}, "scenario"),
        ({"algorithm": "edt", "faults": "crash:9999"}, "fault"),
        ({"algorithm": "edt", "fault": ["crash:4231"]}, "scenario"),
        ({"algorithm": "edt", "topology": "star:5"}, "scenario"),
        ({"algorithm": "edt", "driver": "join"}, "driver"),
    ],
)
def test_mistakes_are_scenario_errors(star: tb.Network, options: dict[str, Any], field: str) -> None:
    with pytest.raises(tb.ScenarioError) as raised:
        star.broadcast(**options)
    assert raised.value.field == field


@pytest.mark.parametrize("source", ["sta:4", "missing.graphml", 4, None])
def test_what_is_no_network_is_refused(source: Any) -> None:
    with pytest.raises(tb.ScenarioError) as raised:
        tb.network(source)
    assert raised.value.field == "topology"


def test_a_folder_that_is_in_use_is_refused(star: tb.Network, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    for attempt in (lambda: star.broadcast("flood", out=tmp_path), lambda: star.broadcast("flood").save(tmp_path)):
        with pytest.raises(tb.ScenarioError, match="not an empty directory"):
            attempt()
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    with pytest.raises(tb.ScenarioError, match="has a directory already"):
        star.broadcast("flood", out=tmp_path / "one").save(tmp_path / "two")
    with pytest.raises(tb.ScenarioError, match="only in memory"):
        tb.verify(star.broadcast("flood"))


def test_a_run_that_cannot_start_names_the_reason(star: tb.Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(tb.RunError, match="the parent of all hosts ended with status 1"):
        star.broadcast("flood", driver="local")


# --- files and pages -------------------------------------------------------------------------------------------------


def test_reports_and_exports_are_written_to_given_places(star: tb.Network, tmp_path: Path) -> None:
    run = star.broadcast(**EDT)
    page = run.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == page.html
    assert "crash:4231@2" in page.html
    files = run.export(goal=tmp_path / "edt.goal", graphml=tmp_path / "edt.graphml")
    assert files == {"graphml": tmp_path / "edt.graphml", "goal": tmp_path / "edt.goal"}
    assert networkx.read_graphml(files["graphml"]).number_of_nodes() == 24
    assert files["goal"].read_text().startswith("num_ranks 24\n")
    with pytest.raises(tb.ScenarioError, match="goal=FILE"):
        run.export()
    with pytest.raises(tb.ScenarioError, match="cannot be written"):
        run.report(tmp_path / "missing" / "report.html")


def test_a_notebook_shows_network_and_claims_repeatedly(star: tb.Network) -> None:
    shown = [star.broadcast(algorithm)._repr_html_() for algorithm in ("flood", "greedy-tree")]
    for html in shown:
        (inner,) = re.findall(r'srcdoc="([^"]*)"', html)
        assert all(
            part in inner for part in ("&lt;svg", "slider", "<h2>Claims".replace("<", "&lt;").replace(">", "&gt;"))
        )
        # Outside the frame there are no ids, styles or scripts, which could meet those of another run.
        outside = html.replace(inner, "")
        assert not re.search(r"\bid=|<style|<script", outside)


# --- what is left behind ---------------------------------------------------------------------------------------------


def left_over() -> tuple[int, int, list[psutil.Process], list[Path]]:
    """Return descriptors, threads, child processes, and temporary files."""
    process = psutil.Process()
    return (
        process.num_fds(),
        threading.active_count(),
        process.children(recursive=True),
        [*Path(tempfile.gettempdir()).iterdir()],
    )


def test_many_calls_leave_nothing_behind(
    empty_folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, star: tb.Network
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
    small = tb.network("star:3")
    star.broadcast("flood")
    small.broadcast("flood", driver="local", ranks_per_host=6)
    gc.collect()
    descriptors, threads, processes, files = left_over()
    for seed in range(15):
        assert star.broadcast("flood", seed=seed).ok
    for seed in range(3):
        assert small.broadcast("flood", driver="local", ranks_per_host=6, seed=seed).ok
    # Fewer threads: one that trio keeps for ten seconds after an earlier test may have ended.
    assert threading.active_count() <= threads
    assert left_over()[0] <= descriptors
    assert left_over()[2:] == (processes, files)
    assert list(empty_folder.iterdir()) == []

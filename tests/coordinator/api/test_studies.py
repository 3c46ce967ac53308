"""Campaigns, certificates, comparisons and reproductions by the Python API, against the commands."""

import tempfile
from pathlib import Path
from typing import Any

import networkx
import polars as pl
import pytest

import coordinator as tb
from tests.helpers.command_line import Call

GRID: dict[str, Any] = {"vary": {"redundancy": range(1, 4)}, "faults": "nodes=0..2", "trials": 15}


@pytest.fixture(scope="module")
def star() -> tb.Network:
    return tb.network("star:4")


@pytest.fixture(scope="module")
def campaign(star: tb.Network) -> tb.Campaign:
    return tb.campaign(star, "broadcast", "edt", **GRID, workers=1)


# --- campaigns -------------------------------------------------------------------------------------------------------


def test_a_campaign_has_the_results_of_the_command(campaign: tb.Campaign, call: Call) -> None:
    grid = "--vary redundancy=1..3 --faults nodes=0..2 --trials 15"
    told = call(f"campaign --topology star:4 --algorithm edt {grid} --out stored --json").data
    rows = [{**row, "redundancy": int(str(row["redundancy"]).removeprefix("x="))} for row in told["rows"]]
    assert campaign.results.to_dicts() == rows
    assert campaign.trials.equals(pl.read_parquet("stored/trials.parquet"))
    assert campaign.report().html == Path("stored/campaign.html").read_text()
    assert campaign.plot().svg == Path("stored/delivery-ratio-crashed-nodes.svg").read_text()
    assert (campaign.verdict, campaign.exit_status, campaign.path) == ("holds", 0, None)


def test_failures_are_trials_that_a_run_repeats(campaign: tb.Campaign, star: tb.Network) -> None:
    assert campaign.failures.filter(pl.col("redundancy") == 3).is_empty()
    failure = campaign.failures.row(0, named=True)
    run = star.broadcast("edt", redundancy=failure["redundancy"], faults=failure["faults"].split())
    assert run.summary["journal_hash"] == failure["journal_hash"]
    missing = run.nodes.filter((pl.col("received") < pl.col("expected")) & (pl.col("state") == "alive"))
    assert missing["label"].to_list() == failure["unserved"].split()


def test_varied_fields_are_columns_with_their_values(star: tb.Network) -> None:
    vary: dict[str, Any] = {"source": ["1234", "4321"], "segments": [1, 2], "seed": [7]}
    done = tb.campaign(star, "broadcast", "edt", vary=vary, faults="nodes=0", trials=1)
    wanted = [("1234", 1, 7), ("1234", 2, 7), ("4321", 1, 7), ("4321", 2, 7)]
    assert done.results.select("source", "varied_segments", "seed").rows() == wanted
    assert done.trials.select("source", "varied_segments", "varied_seed").rows() == wanted
    # Every packet is cut into two segments; the figure and the varied field have the same name.
    assert done.results["segments"].to_list() == [23, 46, 23, 46]
    assert done.trials.schema["undecided"] == pl.String


def test_one_varied_field_does_not_hide_a_figure(star: tb.Network) -> None:
    done = tb.campaign(star, "broadcast", "edt", vary={"segments": range(1, 3)}, faults="nodes=0", trials=1)
    assert [(row["varied segments"], row["segments"]) for row in done.rows] == [("1", 23), ("2", 46)]


@pytest.mark.parametrize(
    ("name", "value"), [("trials", "5"), ("trials", 2.5), ("precision", "0.1"), ("workers", True), ("vary", ["source"])]
)
def test_arguments_of_a_wrong_type_are_refused(star: tb.Network, name: str, value: object) -> None:
    with pytest.raises(tb.ScenarioError) as raised:
        tb.campaign(star, "broadcast", "edt", faults="nodes=0", **{name: value})  # type: ignore[arg-type]
    assert (raised.value.field, raised.value.value) == (name, value)


def test_a_single_value_may_be_varied(star: tb.Network) -> None:
    done = tb.campaign(star, "broadcast", "edt", vary={"source": "4321"}, faults="nodes=0")
    assert done.results["source"].to_list() == ["4321"]


def test_a_figure_that_does_not_exist_is_refused(campaign: tb.Campaign) -> None:
    assert campaign.plot("guaranteed", faults="crashed nodes").title == "Guaranteed delivery, crashed nodes"
    for arguments in ({"measure": "steps"}, {"faults": "links down"}):
        with pytest.raises(tb.ScenarioError) as raised:
            campaign.plot(**arguments)
        assert raised.value.field == "plot"


def test_a_stored_campaign_is_resumed(star: tb.Network, tmp_path: Path) -> None:
    for trials, now in ((10, 10), (25, 15), (25, 0)):
        done = tb.campaign(star, "broadcast", "flood", faults="nodes=1", trials=trials, out=tmp_path / "kept")
        assert done.session.trials == now
        assert done.results["trials"].to_list() == [trials]
    assert (done.path, (tmp_path / "kept" / "campaign.html").exists()) == (tmp_path / "kept", True)


def test_a_graph_reaches_worker_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    net = tb.network(networkx.petersen_graph(), name="petersen")
    shared = [tb.campaign(net, "broadcast", "flood", faults="nodes=2", trials=30, workers=count) for count in (1, 2)]
    assert shared[0].trials.equals(shared[1].trials)
    assert tb.certify(net, "broadcast", "flood", faults="nodes<=2", workers=2).verdict == "holds"
    assert list(tmp_path.iterdir()) == []


def test_a_campaign_needs_a_network_and_points(star: tb.Network) -> None:
    with pytest.raises(tb.ScenarioError, match="expected a network"):
        tb.campaign("star:4", "broadcast", "edt", faults="nodes=1")  # type: ignore[arg-type]
    with pytest.raises(tb.ScenarioError, match="at least one point"):
        tb.campaign(star, "broadcast", "edt", faults=())


# --- certificates ----------------------------------------------------------------------------------------------------


def test_a_certificate_covers_every_set(star: tb.Network) -> None:
    certificate = tb.certify(star, "broadcast", "edt", redundancy=3, faults="nodes<=2")
    assert (certificate.verdict, certificate.exit_status, certificate.counterexample) == ("holds", 0, None)
    assert certificate.levels["sets"].to_list() == [1, 23, 253]  # 23 other nodes, and 23 * 22 / 2 pairs of them
    assert certificate.levels["covered"].equals(certificate.levels["sets"])
    with pytest.raises(tb.ScenarioError, match="no counterexample"):
        certificate.save_counterexample("counterexample.toml")
    assert (certificate.method, certificate.tolerance) == ("cuts", 2)
    assert "without a common place" in certificate.argument[0]


def test_a_certificate_is_saved_and_verified(star: tb.Network, tmp_path: Path, call: Call) -> None:
    saved = tb.certify(star, "broadcast", "edt", redundancy=3, faults="nodes<=3").save(tmp_path / "certificate.json")
    found = tb.verify(saved)
    assert (found.verified, found.undecided, found.findings) == (True, False, [])
    printed = call("verify", saved)
    words = "violated: S_4 edt x=3, nodes <= 3: 2,048 sets of faults; violated by crash:2134@1, crash:2314@1, crash:2431@1: "
    assert (printed.status, printed.out) == (
        0,
        f"{saved}: verified: {words}1324, 3124, 4123, 4132, 4321 miss a message\n",
    )
    assert found.statement.startswith(words)
    saved.write_text(saved.read_text().replace('"tolerated":2', '"tolerated":3'))
    printed = call("verify", saved)
    assert printed.status == 1
    assert "crash: tolerated is 3, and it should be 2" in printed.out
    by_runs = tb.certify(star, "broadcast", "edt", redundancy=1, faults="nodes<=1", method="runs")
    assert (by_runs.method, by_runs.argument, by_runs.tolerance) == ("runs", [], None)
    with pytest.raises(tb.ScenarioError, match="one of: auto, cuts, runs"):
        tb.certify(star, "broadcast", "edt", faults="nodes<=1", method="faith")


def test_a_counterexample_is_saved_and_repeated(star: tb.Network, call: Call, tmp_path: Path) -> None:
    certificate = tb.certify(star, "broadcast", "edt", redundancy=2, faults="nodes<=2")
    assert (certificate.verdict, certificate.exit_status) == ("violated", 1)
    assert certificate.counterexample is not None
    assert len(certificate.counterexample.faults) == 2
    assert ", ".join(certificate.counterexample.faults) in repr(certificate)
    saved = certificate.save_counterexample(tmp_path / "counterexample.toml")
    assert call("certify", saved).status == 1


# --- comparisons and reproductions -----------------------------------------------------------------------------------


def test_runs_in_memory_are_compared_with_stored_ones(star: tb.Network, tmp_path: Path) -> None:
    flood = star.broadcast("flood", out=tmp_path / "flood")
    tree = star.broadcast("greedy-tree")
    compared = tb.compare(tree, flood, tmp_path / "flood")
    assert compared.runs == [tree.name, flood.name, str(tmp_path / "flood")]
    assert set(compared.differs) == {"algorithm"}
    (segments,) = compared.metrics.filter(name="segments").rows()
    assert segments[1:] == (23, 36, 36) == tuple(run.summary["segments"] for run in (tree, flood, flood))
    assert not compared.same_history
    assert tb.compare(flood, tmp_path / "flood").same_history
    assert compared.plot().svg.startswith("<svg")
    with pytest.raises(tb.ScenarioError, match="two or more runs"):
        tb.compare(flood)


def test_a_sweep_has_the_rows_of_the_command(call: Call, tmp_path: Path) -> None:
    found = tb.sweep([tb.network("star:3"), "star:4..5"], "broadcast", ["greedy-tree", "edt"])
    steps = {(row["topology"], row["algorithm"]): row["measured"] for row in found.results.rows(named=True)}
    assert [steps[f"star:{n}", "greedy-tree"] for n in (3, 4, 5)] == [3, 4, 6]  # the diameter, 3(n - 1)/2 rounded down
    told = call("sweep --topology star:3 --topology star:4..5 --algorithm greedy-tree,edt --json").data
    assert found.results.to_dicts() == told["rows"]
    assert found.exit_status == 0
    assert found.report(tmp_path / "sweep.html").html == (tmp_path / "sweep.html").read_text()
    assert found.plot().svg.startswith("<svg")
    with pytest.raises(tb.ScenarioError, match="file:PATH"):
        tb.sweep(tb.network(networkx.petersen_graph()), "broadcast", "flood")


def test_a_reproduction_has_tables(empty_folder: Path) -> None:
    found = tb.reproduce("hussain-figures", out=empty_folder / "paper")
    assert found.verdict == "holds"
    assert sum(len(table.rows) for table in found.tables) == sum(found.counts.values()) > 20
    assert (empty_folder / "paper" / "reproduction.html").exists()
    with pytest.raises(tb.ScenarioError, match="did you mean 'tseng-sheu-1997'"):
        tb.reproduce("tseng-sheu-1979")

"""Foreign histories: written, read, reported, compared, exported and verified; nothing unmeasured is a number."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest

import coordinator as tb
from coordinator.annexes.mpi.api import save_calls
from coordinator.annexes.mpi.history import network_name, save_history, verify_history
from coordinator.annexes.mpi.judge import JudgeSettings, MpiJudgement, judge
from coordinator.annexes.mpi.rules.base import PairCount
from emunode.errors import ScenarioError
from tests.annexes.mpi.support import played_library
from tests.helpers.support import GOLDEN


def judged(folder: Path, flaw: str = "", name: str = "ring", ranks: int = 5) -> MpiJudgement:
    """Judge an allreduce of a played library."""
    library = played_library(folder, flaw)
    return judge(JudgeSettings(["allreduce"], [name], [ranks], mpirun=library, open_ports=True))


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ring")
    (path,) = save_calls(judged(folder), folder / "history")
    return path


def test_a_history_has_what_was_measured_and_no_more(ring: Path) -> None:
    run = tb.Run.read(ring)
    assert (run.verdict, run.notes, run.summary["driver"]) == ("holds", [], "foreign")
    assert (run.summary["packets"], run.summary["bytes"], run.summary["topology"]) == (40, 8000, "complete:5")
    assert "steps" not in run.summary
    assert run.links.columns == ["sender", "port", "receiver", "packets", "bytes"]
    assert run.links["packets"].to_list() == [8] * 5
    with pytest.raises(tb.RunError, match="it was measured elsewhere, without steps"):
        _ = run.journal
    assert run.claims["verdict"].to_list() == ["holds"] * 5


def test_its_report_shows_measured_traffic_beside_the_rule(ring: Path) -> None:
    page = (ring / "report.html").read_text()
    assert "Measured: bytes" in page
    assert "By the rule: bytes" in page
    assert "Not measured: steps, times, segments, payloads." in page
    assert "coordinator run scenario.toml" not in page


def test_it_verifies_and_is_compared_and_exported(ring: Path, tmp_path: Path) -> None:
    assert tb.verify(ring).findings == []
    (other,) = save_calls(judged(tmp_path, name="rabenseifner"), tmp_path / "other")
    metrics = {row["name"]: row for row in tb.compare(ring, other).rows if row["about"] == "metric"}
    assert metrics["packets"]["ratio"] == 20 / 40
    run = tb.Run.read(ring)
    text = run.export(graphml=tmp_path / "ring.graphml")["graphml"].read_text()
    assert '<data key="packets">8</data><data key="bytes">1600</data>' in text
    with pytest.raises(ScenarioError, match="it was measured elsewhere, without steps"):
        run.export(goal=tmp_path / "ring.goal")


def test_a_violated_call_stays_violated(tmp_path: Path) -> None:
    (path,) = save_calls(judged(tmp_path, "one more"), tmp_path / "history")
    run = tb.Run.read(path)
    assert run.verdict == "violated"
    assert run.claims.filter(pl.col("name") == "differing_pairs")["measured"].to_list() == [1]
    assert tb.verify(path).findings == []


@pytest.mark.parametrize(("flaw", "verdict", "other"), [("", "holds", "violated"), ("wrong sum", "violated", "holds")])
def test_the_own_choice_is_verified_without_claims(tmp_path: Path, flaw: str, verdict: str, other: str) -> None:
    (path,) = save_calls(judged(tmp_path, flaw, "auto"), tmp_path / "history")
    assert (tb.Run.read(path).verdict, tb.verify(path).findings) == (verdict, [])
    _edit("summary.json", ["verdict"], other)(path)
    assert any(f"verdict {other}, by its claims {verdict}" in each for each in tb.verify(path).findings)


def test_two_ranks_and_composed_algorithms_are_stored_too(tmp_path: Path) -> None:
    (path,) = save_calls(judged(tmp_path, name="nonoverlapping", ranks=2), tmp_path / "history")
    assert tb.Run.read(path).summary["topology"] == network_name(2) == "hypercube:1"
    assert tb.verify(path).findings == []


def _edit(name: str, place: Sequence[str | int], value: object) -> Callable[[Path], None]:
    """Change the value at a place of a file."""

    def edit(path: Path) -> None:
        values = json.loads((path / name).read_text())
        within = values
        for key in place[:-1]:
            within = within[key]
        within[place[-1]] = value
        (path / name).write_text(json.dumps(values))

    return edit


def _links(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        change(pl.read_parquet(path / "links.parquet")).write_parquet(path / "links.parquet")

    return edit


def _without_rule(path: Path) -> None:
    _edit("foreign.json", ["rule"], None)(path)
    _edit("summary.json", ["claims"], [])(path)


FORGED_FIELDS = (GOLDEN / "mpi" / "forgeries.jsonl").read_text().splitlines()
FORGERIES: dict[str, Callable[[Path], None]] = {
    **{row["finding"]: _edit(row["file"], row["place"], row["value"]) for row in map(json.loads, FORGED_FIELDS)},
    "verdict holds, by its claims undecided": _without_rule,
    "bytes is 8000, by links.parquet 8001": _links(
        lambda each: each.with_columns(bytes=pl.when(pl.col("sender") == 0).then(1601).otherwise(1600).cast(pl.Int64))
    ),
    "repeated pairs, wrong ports": _links(lambda each: each.with_columns(port=pl.col("port") + 1)),
    "no column port": _links(lambda each: each.drop("port")),
}


@pytest.mark.parametrize("finding", FORGERIES)
def test_forged_histories_do_not_verify(ring: Path, tmp_path: Path, finding: str) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in ring.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    FORGERIES[finding](copy)
    assert any(finding in each for each in verify_history(copy).findings)


def test_traffic_without_a_rule_is_undecided(tmp_path: Path) -> None:
    summary = {"collective": "all", "algorithm": "measured", "verdict": "undecided", "undecided_because": "no rule"}
    counts = {(0, 2): PairCount(1, 0)}
    path = save_history("traffic", 3, counts, summary, {"origin": "a table"}, tmp_path / "history", ["a line\n"])
    run = tb.Run.read(path)
    assert (run.verdict, run.undecided, len(run.claims)) == ("undecided", "no rule", 0)
    assert (path / "traffic.csv").read_text() == "a line\n"
    assert "Measured: messages" in (path / "report.html").read_text()
    assert tb.verify(path).findings == []


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(ScenarioError, match="it exists and is not an empty directory"):
        save_calls(judged(tmp_path), tmp_path / "taken")

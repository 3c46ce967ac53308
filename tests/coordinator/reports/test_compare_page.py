"""Two runs on one page: what differs comes first, and both maps show the step of the one slider."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from coordinator.api.comparisons import compare
from coordinator.reports.data import read_run
from coordinator.reports.run_report import headline
from tests.helpers.browser import Browser
from tests.helpers.command_line import Call
from tests.helpers.support import run_scenario

BROADCAST = {"topology": "star:4", "collective": "broadcast"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four runs: of seven steps, of four, with a fault, and with a run that was cut short."""
    root = tmp_path_factory.mktemp("runs")
    run_scenario(root / "edt", algorithm="edt", **BROADCAST)
    run_scenario(root / "greedy", algorithm="greedy-tree", **BROADCAST)
    run_scenario(root / "crash", algorithm="greedy-tree", fault=["crash:2134@2"], **BROADCAST)
    run_scenario(root / "short", algorithm="greedy-tree", step_limit=2, **BROADCAST)
    return root


def section(page: str, name: str) -> str:
    """Return the text of a section, without tags."""
    part = page.partition(f'<section id="{name}">')[2].partition("</section>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", part))


def page_of(folder: Path, one: str, other: str) -> str:
    return compare(folder / one, folder / other).save(folder / f"{one}-{other}.html").read_text()


def test_the_first_differing_row_is_shown(runs: Path) -> None:
    shown = section(page_of(runs, "greedy", "crash"), "journals")
    one, other = (pl.read_parquet(runs / name / "journal.parquet").rows() for name in ("greedy", "crash"))
    first = next(at for at, rows in enumerate(zip(one, other, strict=False)) if rows[0] != rows[1])
    assert f"differ from row {first + 1} on, in step {one[first][0]}" in shown
    data = read_run(runs / "greedy")
    assert data.topology is not None
    for row in (one[first], other[first]):
        assert f" {row[0]} {data.topology.label(row[1])} {row[2]} {data.topology.label(row[3])} " in shown


def test_a_journal_that_ends_first_is_named(runs: Path) -> None:
    shown = section(page_of(runs, "greedy", "short"), "journals")
    rows = pl.read_parquet(runs / "short" / "journal.parquet").height
    assert f"from row {rows + 1} on, in step 3" in shown
    assert shown.endswith("B the journal ends before this row ")


def test_claims_that_differ_come_first(runs: Path) -> None:
    page = page_of(runs, "greedy", "short")
    claims = page.partition('<section id="claims">')[2].partition("</section>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", claims, re.DOTALL)
    verdicts = [re.findall(r'class="state (\w+)"', row) for row in rows]
    order = [0 if len(set(found)) == 2 else 2 if len(found) == 2 else 1 for found in verdicts if found]
    assert order == sorted(order)
    assert 0 in order, "holds beside undecided"


def test_three_runs_have_one_row_a_metric(runs: Path, tmp_path: Path) -> None:
    page = compare(*(runs / name for name in ("edt", "greedy", "crash"))).save(tmp_path / "page.html").read_text()
    assert page.count("<iframe") == 3
    assert page.index('id="scenario"') < page.index('id="metrics"') < page.index('id="journals"')
    metrics = section(page, "metrics")
    assert " steps 7 (predicted 7) 4 (predicted 4) 4 " in metrics
    assert "journal hash" not in metrics
    assert len(re.findall("The journals differ from row", section(page, "journals"))) == 2


def test_the_same_history_is_said_so(runs: Path, tmp_path: Path) -> None:
    run_scenario(tmp_path / "again", algorithm="greedy-tree", seed=5, **BROADCAST)
    page = compare(runs / "greedy", tmp_path / "again").save(tmp_path / "page.html").read_text()
    assert "The same history, byte for byte." in section(page, "journals")
    assert section(page, "scenario") == " Scenario A B seed 0 5 "
    assert " packets 23 23 1 " in section(page, "metrics").partition("Metrics with the same value")[2]


def test_a_damaged_run_is_compared_as_far_as_it_can_be(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "<b>&"
    run_scenario(folder, algorithm="greedy-tree", **BROADCAST)
    (folder / "journal.parquet").write_bytes(b"nothing")
    page = compare(runs / "edt", folder).save(tmp_path / "page.html").read_text()
    assert "one of them is missing or damaged" in section(page, "journals")
    assert "<b>&" not in page


def test_the_command_writes_the_page(call: Call, runs: Path, tmp_path: Path) -> None:
    ended = call("compare --out page.html --plot bars.svg", runs / "edt", runs / "greedy")
    assert ended.status == 0
    assert (tmp_path / "bars.svg").read_text().startswith("<svg")
    assert "var(" not in (tmp_path / "bars.svg").read_text()
    assert ended.out == call("compare", runs / "edt", runs / "greedy").out
    assert (tmp_path / "page.html").read_text().endswith("</html>")
    refused = call("compare --out seven.html", *[runs / "edt"] * 7)
    assert (refused.status, (tmp_path / "seven.html").exists()) == (2, False)
    assert "invalid out 'seven.html': a page has at most 6 runs, not 7" in refused.err
    refused = call("compare --out missing/page.html", runs / "edt", runs / "greedy")
    assert refused.status == 2
    assert "it cannot be written: No such file or directory" in refused.err


def test_nodes_that_were_cut_off_are_labels_in_a_table(call: Call, runs: Path) -> None:
    table = call("compare --csv", runs / "greedy", runs / "crash").out
    (row,) = [line for line in table.splitlines() if line.startswith("metric,cut_off,")]
    assert "'label'" not in table
    summary = json.loads((runs / "crash" / "summary.json").read_text())
    assert ", ".join(node["label"] for node in summary["cut_off"]) in row


# --- in a browser ----------------------------------------------------------------------------------------------------

TEXTS = "[...document.querySelectorAll('.side output')].map((output) => output.textContent)"
INNER = "[...document.querySelectorAll('iframe')].map((frame) => frame.contentDocument)"


@pytest.mark.browser
def test_one_slider_moves_both_maps(page: Browser, runs: Path) -> None:
    page_of(runs, "edt", "crash")
    journals = [pl.read_parquet(runs / name / "journal.parquet") for name in ("edt", "crash")]
    page.open(runs / "edt-crash.html", "#step=2")
    page.wait_until("document.getElementById('slider').max === '7'")
    page.evaluate("document.getElementById('slider').focus()")
    for step in range(2, 8):
        for text, journal in zip(page.evaluate(TEXTS), journals, strict=True):
            last = int(journal["step"].max())  # type: ignore[arg-type]
            sent = journal.filter(step=min(step, last))
            links = sent.select("sender", "receiver").n_unique()
            assert text.startswith(f"step {min(step, last)} of {last}: "), f"step {step}"
            assert f" over {links} link" in text, f"step {step}"
        page.press("ArrowRight", 39)
    page.click("#whole")
    assert all(text.startswith("whole run: ") for text in page.evaluate(TEXTS))
    # The frames show the maps alone, whole.
    assert (
        page.evaluate(f"{INNER}.map((inner) => getComputedStyle(inner.querySelector('header')).display)")
        == ["none"] * 2
    )
    page.wait_until(f"{INNER}.every((inner) => inner.documentElement.scrollHeight <= inner.defaultView.innerHeight)")
    gap = "inner.defaultView.innerHeight - inner.body.getBoundingClientRect().bottom"
    inner = f"{INNER}[1]"
    page.evaluate(f"{inner}.getElementById('show-levels').click()")
    page.wait_until(f"{inner}.querySelector('#levels svg')")
    page.evaluate(f"{inner}.getElementById('show-levels').click()")
    page.wait_until(f"{INNER}.every((inner) => {gap} < 20)")
    page.click("#to-difference")
    page.wait_until("document.getElementById('now').textContent === 'step 1 of 7'")
    page.click("#play")
    page.wait_until("document.getElementById('now').textContent === 'step 3 of 7'")
    page.resize(360)
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_the_headings_are_those_of_the_reports(runs: Path) -> None:
    page = page_of(runs, "edt", "crash")
    for name in ("edt", "crash"):
        assert headline(read_run(runs / name)) in page

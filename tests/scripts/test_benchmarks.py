"""The benchmark: its arithmetic on made-up figures, every section on small networks, and that it leaves nothing behind."""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from benchmarks import __main__ as bench
from benchmarks import subprocesses as programs
from benchmarks import tables
from benchmarks.figure import draw
from benchmarks.interleaved import interleave
from benchmarks.record import BARE, Note, Options, Row
from benchmarks.results import Document, Measured, read_document, rows_of, write_document
from benchmarks.sections import control, versions
from benchmarks.subprocesses import ProgramError, run_program
from coordinator.networks.control_tree import FAN_OUT, tree_parents
from emunode.errors import ScenarioError
from tests.helpers.command_line import ROOT, SECONDS, Running, arguments, wait_until
from tests.helpers.process_support import is_gone

QUICK = Options(turns=1, quick=True)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def test_a_score_is_relative_to_its_two_baselines() -> None:
    baselines, ours = iter([100.0, 200.0, 400.0, 100.0]), iter([75.0, 600.0, 50.0])
    comparison = interleave(lambda: next(baselines), {"ours": lambda: next(ours)}, 3)
    assert comparison.baseline == 150
    assert comparison.scores["ours"] == (75, 0.5)  # of 0.5, 2.0 and 0.2


def test_shorter_times_are_faster() -> None:
    outcome = interleave(lambda: 2.0, {"ours": lambda: 4.0, "theirs": lambda: 1.0}, 1, times=True)
    assert [score.share for score in outcome.scores.values()] == [0.5, 2.0]


def test_only_our_own_rows_have_a_bound() -> None:
    outcome = interleave(lambda: 1.0, {"ours": lambda: 0.5, "theirs": lambda: 0.1}, 1)
    baseline, ours, theirs = outcome.rows("here", "packets/s", "ours", at_least=0.6)
    assert (baseline.figure, baseline.share, baseline.met) == (BARE, None, True)
    assert (ours.beside, ours.bound, ours.met) == (BARE, "share >= 0.6", False)
    assert (theirs.bound, theirs.met) == ("", True)


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("a", "b", 5.0, "s"), True),
        (Row("a", "b", 5.0, "s", at_most=5.0), True),
        (Row("a", "b", 5.1, "s", at_most=5.0), False),
        (Row("a", "b", 5.0, "s", 0.5, BARE, at_least=0.5), True),
        (Row("a", "b", 5.0, "s", 0.4, BARE, at_least=0.5), False),
        (Row("a", "b", 5.0, "s", at_least=0.5), False),
    ],
)
def test_a_row_meets_its_bound(row: Row, met: bool) -> None:
    assert row.met is met
    assert ("SHORT" in tables.line(row)) is not met


# --- documents -------------------------------------------------------------------------------------------------------


def document_of(*rows: Row, section: str = "core", load: float = 0.5) -> Document:
    measured = Measured(list(rows), [Note("uvloop: not installed")], 1.0, (load, 2.0))
    return {"sections": {section: measured.record(Options())}}


SPEED = Row("star:5", "I/O core", 61234.5, "packets/CPU s", 0.93, BARE, at_least=0.8)
TIME = Row("ej:3+4^3", "ready", 41.2, "s", at_most=40)
MARKED = "before\n<!-- bench core -->\nstale\n<!-- /bench -->\nafter\n<!-- bench wanted -->\n<!-- /bench -->\n"


def test_a_document_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    assert read_document(path) == {"sections": {}}
    write_document(path, document_of(SPEED, TIME))
    assert rows_of(read_document(path), "core") == [SPEED, TIME]
    assert rows_of(read_document(path), "sizes") == []


@pytest.mark.parametrize("text", ["[]", '{"rows": []}', "{", '{"sections": []}'])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"not a result file of this benchmark|Expecting"):
        read_document(path)


def test_tables_are_written_between_their_marks() -> None:
    document = document_of(SPEED, TIME, load=7.25)
    text = tables.render(MARKED, document)
    assert text == tables.render(text, document)
    assert text.startswith("before\n<!-- bench core -->\n")
    assert "\nafter\n" in text
    assert "stale" not in text
    assert text.count("| star:5 | I/O core | 61,234 packets/CPU s | 0.93 of bare loop | share >= 0.8 |") == 2
    assert text.count("| ej:3+4^3 | ready | 41.2 s |  | <= 40 (short) |") == 2
    assert text.count("load average of other work at most 7.2.") == 2
    assert text.count("uvloop: not installed.") == 1


def test_a_table_has_no_empty_column() -> None:
    text = tables.render("<!-- bench core -->\n<!-- /bench -->", document_of(TIME))
    assert "| what | figure | value | wanted |" in text


def test_figures_can_be_columns() -> None:
    rows = Row("star:4", "links", 36.0, ""), Row("star:4", "ready", 0.1, "s"), replace(TIME, value=39.0)
    text = tables.render("<!-- bench core across -->\n<!-- /bench -->", document_of(*rows))
    assert "| what | links | ready |\n" in text
    assert "| star:4 | 36 | 0.1 s |\n| ej:3+4^3 |  | 39 s |\n" in text


@pytest.mark.parametrize("mark", ["links", "wanted"])
def test_a_mark_that_finds_nothing_is_an_error(mark: str) -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        tables.render(f"<!-- bench {mark} -->\n<!-- /bench -->", document_of(Row("a", "b", 1.0, "s")))


def test_the_documentation_says_what_was_measured() -> None:
    document = read_document(bench.DOCUMENT)
    assert not any(part["quick"] for part in document["sections"].values())
    for path in bench.RENDERED:
        text = path.read_text()
        assert tables.MARKS.search(text), path
        assert tables.render(text, document) == text, f"{path.name} is stale: scripts/bench --render"


def test_a_figure_is_drawn(tmp_path: Path) -> None:
    sizes = [
        Row(name, figure, value, unit)
        for name, links, seconds in (("star:4", 36.0, 0.1), ("star:5", 240.0, 0.2), ("ej:3+4", 111.0, 0.15))
        for figure, value, unit in (("links", links, ""), ("ready", seconds, "s"), ("the whole command", 2.0, "s"))
    ]
    document = document_of(SPEED, replace(SPEED, figure=BARE))
    document["sections"] |= document_of(*sizes, section="sizes")["sections"]
    draw(document, tmp_path / "figures.svg")
    drawing = (tmp_path / "figures.svg").read_text()
    assert "var(" not in drawing
    for words in ("star graph", "Eisenstein-Jacobi", "The whole run", "61,234"):
        assert words in drawing
    with pytest.raises(ValueError, match="nothing to draw"):
        draw({"sections": {}}, tmp_path / "nothing.svg")
    with pytest.raises(ScenarioError):
        draw(document, tmp_path / "figures.gif")


# --- programs --------------------------------------------------------------------------------------------------------

FORKS = "import os, time; print(os.getpid(), flush=True); os.fork(); time.sleep(600)"


def test_a_slow_program_is_killed_with_its_children() -> None:
    with pytest.raises(ProgramError, match="longer than"):
        run_program([sys.executable, "-c", FORKS], seconds=0.5)
    assert not psutil.Process().children(recursive=True)
    assert not [process for process in psutil.process_iter(["cmdline"]) if FORKS in (process.info["cmdline"] or ())]


def test_the_error_of_a_failed_program_is_its_last_line() -> None:
    with pytest.raises(ProgramError, match=r"python.*: no such luck$"):
        run_program([sys.executable, "-c", "raise SystemExit('first\\nno such luck')"], seconds=SECONDS)
    with pytest.raises(ProgramError, match="no-such-program: No such file"):
        run_program(["no-such-program"], seconds=SECONDS)


def test_the_bare_loop_answers_every_question() -> None:
    assert programs.measure("bare", "links", count=40, seconds=SECONDS) > 0
    assert programs.measure("bare", "idle", hosts=2, rounds=5, seconds=SECONDS) > 0


# --- sections --------------------------------------------------------------------------------------------------------


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Nothing that the test opens may be left open."""
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208  # names, not paths
    yield
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


def test_all_sections_are_found() -> None:
    sections = bench.find_sections()
    assert set(sections) >= {"core", "stack", "idle", "links", "memory", "sizes", "hosts", "stretch"}
    assert [name for name, section in sections.items() if section.optional] == ["control", "stretch", "versions"]


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("name", ["memory", "core", "stack", "idle", "links", "sizes", "hosts"])
@pytest.mark.usefixtures("descriptors")
def test_every_section_works_alone(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    write_document(path, document_of(SPEED, section="earlier"))
    assert bench.main([name, "--quick", "--json", str(path)]) == 0
    document = read_document(path)
    assert list(document["sections"]) == ["earlier", name]
    rows = rows_of(document, name)
    assert rows
    assert all(row.value > 0 or row.unit == "bytes/link end" for row in rows)
    assert all(row.beside and row.share > 0 for row in rows if row.share is not None)
    assert document["sections"][name]["quick"]
    printed = capsys.readouterr().out
    assert all(tables.line(row) in printed for row in rows)
    assert not psutil.Process().children(recursive=True)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("question", ["links", "flood", "start"])
def test_versions_are_compared_by_processor_time(
    question: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A checkout with an environment of its own: the same code by another path.
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    first = next(one for one in versions.QUESTIONS if one.name == question)
    monkeypatch.setattr(versions, "QUESTIONS", [first])
    old, new, ratio = versions.rows(replace(QUICK, against=tmp_path))
    assert isinstance(old, Row)
    assert isinstance(new, Row)
    assert isinstance(ratio, Row)
    assert ratio.value == pytest.approx(new.value / old.value)
    assert 0.1 < ratio.value < 10  # the same code on a busy machine
    assert bench.main(["versions", "--quick", "--against", str(tmp_path / "nowhere")]) == 4
    assert "expected a checkout of the project with its own .venv" in capsys.readouterr().err


def test_sizes_that_are_refused_become_notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from benchmarks.sections import sizes

    monkeypatch.setattr(sizes, "QUICK_CASES", (sizes.Case("hypercube:60", "sbt"),))
    assert bench.main(["sizes", "--quick", "--json", str(tmp_path / "figures.json")]) == 0
    (note,) = json.loads((tmp_path / "figures.json").read_text())["sections"]["sizes"]["notes"]
    assert note.startswith("hypercube:60: not measured: ")


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["--turns", "0"], ["--turns", "x"], ["--docs", "--quick"], ["core", "links", "core2"]]
)
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        bench.main(arguments)
    assert stop.value.code == 2


def test_a_malformed_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    path.write_text("[]")
    assert bench.main(["core", "--quick", "--json", str(path)]) == 4
    assert "not a result file of this benchmark" in capsys.readouterr().err
    assert path.read_text() == "[]"


BENCH = f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
from benchmarks.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process(number: signal.Signals, tmp_path: Path) -> None:
    line = arguments(f"idle --turns 1000 --json {tmp_path / 'figures.json'}")
    children: list[psutil.Process] = []
    with closing(Running(tmp_path, [sys.executable, "-c", BENCH, *line])) as bench:
        bench.wait_for(lambda: bench.out, "output")
        while not children:  # it starts processes all the time
            children = psutil.Process(bench.process.pid).children(recursive=True)
        bench.process.send_signal(number)
        ended = bench.end()
    assert (ended.status, ended.err.strip()) == (130, "scripts/bench: interrupted")
    wait_until(lambda: all(map(is_gone, children)), "the end of all processes")


@pytest.mark.parametrize("hosts", [200, 256, 1000])
def test_a_child_costs_the_same_beside_other_work(hosts: int) -> None:
    parents = tree_parents(hosts, FAN_OUT)
    children = Counter(parents)
    seconds = [0.4 + 0.07 * children[host] for host in range(hosts)]
    assert control.cost_of_child(seconds, parents) == pytest.approx(0.07)

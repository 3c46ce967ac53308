"""The examples: notebooks run in a kernel, whose event loop is running, and scripts run as programs."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT, SECONDS, run_process

EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
PLUGINS = {"highest_bit.py", "prefix_cycles.py"}
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.name not in PLUGINS)
LOOP = "import asyncio\nassert asyncio.get_running_loop().is_running()"
"""A cell that fails where no event loop is running: then the notebook would prove less."""
PRINTED = {
    "own_algorithm.py": ("broadcast highest-bit: holds", "over TCP: holds, the same history: True", "cuts off 7 nodes"),
    "own_network.py": ("file:karate broadcast bfs-tree: holds", "prefix-cycles:4 broadcast bfs-tree: holds"),
    "paper_table.py": ("verdict: holds", "Table 1: Ew_d, weighted edges by dimension", "paper=8, 4, 2, 1"),
}
SHOWN = {
    "first_run.ipynb": ("<run star:4 broadcast edt: holds>", "2341", "the same history"),
    "fault_campaign.ipynb": ("broadcast edt: holds, 277 sets", "crash:1324@1", "Guaranteed delivery, crashed nodes"),
    "compare_algorithms.ipynb": ("different histories; the scenarios differ in algorithm", "speed-up"),
}


def cells(notebook: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(notebook.read_text())["cells"]
    return found


def test_every_example_is_tested_and_listed() -> None:
    assert {path.name for path in NOTEBOOKS} == SHOWN.keys()
    assert {path.name for path in SCRIPTS} == PRINTED.keys()
    page = (EXAMPLES / "README.md").read_text()
    assert [name for name in (*SHOWN, *PRINTED, *PLUGINS) if f"]({name})" not in page] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_stored_without_outputs(notebook: Path) -> None:
    assert [cell for cell in cells(notebook) if cell.get("outputs") or cell.get("execution_count")] == []
    assert notebook.stat().st_size < 10_000


@needs_every_annex
@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_run(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the extra `notebook` is not installed")
    nbclient = pytest.importorskip("nbclient", reason="the extra `notebook` is not installed")
    pytest.importorskip("ipykernel", reason="the extra `notebook` is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    kernel = tmp_path / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": words, "display_name": "Python 3", "language": "python"}))
    folder = tmp_path / "away"
    folder.mkdir()

    content = nbformat.read(notebook, as_version=4)
    content.cells.insert(0, nbformat.v4.new_code_cell(LOOP))
    nbclient.NotebookClient(
        content, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    shown = "".join(str(cell.get("outputs", "")) for cell in content.cells)
    assert [words for words in SHOWN[notebook.name] if words not in shown] == []
    assert "text/html" in shown
    assert "image/svg+xml" in shown
    assert "stderr" not in shown
    assert list(folder.iterdir()) == [], "a run that is not saved leaves no file"


RUN = "import runpy, sys; sys.argv[0:1] = []; runpy.run_path(sys.argv[0], run_name='__main__')"
"""Executes a script in a process that may have imported this project already."""


@needs_every_annex
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_run(script: Path, tmp_path: Path) -> None:
    ended = run_process(tmp_path, [sys.executable, "-c", RUN, script, "written"])
    assert (ended.status, ended.err) == (0, "")
    assert [words for words in PRINTED[script.name] if words not in ended.out] == []
    files = {path.name for path in tmp_path.rglob("*.html")}
    assert files == ({"reproduction.html"} if script.name == "paper_table.py" else set())

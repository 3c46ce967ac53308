"""The course in examples/: stored outputs are what the cells print, and the algorithms of its plug-in keep their claims."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import coordinator as tb
from coordinator.scenario.plugins import load_plugins
from emunode.algorithms.registry import algorithms
from emunode.errors import ScenarioError
from emunode.model import Collective
from emunode.testing import check_algorithm, check_locality
from emunode.topologies.registry import parse_topology
from notebook_outputs import code_cells, outputs_of
from tests.helpers.command_line import ROOT, run_process
from tests.helpers.support import forget_plugins

COURSE = ROOT / "examples" / "course"
BOOK = str(COURSE / "book.py")
NOTEBOOKS = sorted(COURSE.glob("*.ipynb"))
OF_THE_BOOK = [
    pytest.param(
        network, collective, marks=pytest.mark.exhaustive(one_in=2) if network in ("ring:6", "torus:4x4") else ()
    )
    for network in ("ring:5", "ring:6", "torus:3x3", "torus:4x4")
    for collective in ("broadcast", "reduce", "allgather", "reduce-scatter", "alltoall")
] + [pytest.param("complete:5", "alltoall")]


@pytest.fixture(autouse=True)
def withdraw_plugins() -> Iterator[None]:
    """Withdraw the plug-in after each test."""
    yield
    forget_plugins()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_stored_outputs_are_what_the_cells_print(notebook: Path) -> None:
    before = set(COURSE.iterdir())
    cells = code_cells(json.loads(notebook.read_text()))
    assert [cell["outputs"] for cell in cells] == outputs_of(notebook, run_process)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert {path for path in COURSE.iterdir() if path.name != "__pycache__"} == before - {COURSE / "__pycache__"}
    assert "".join(str(cell["outputs"]) for cell in cells).count("measured") >= 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_valid(notebook: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the extra `notebook` is not installed")
    nbformat.validate(nbformat.read(notebook, as_version=4))


def test_a_wrong_formula_is_an_error_of_its_cell(tmp_path: Path) -> None:
    (tmp_path / "book.py").symlink_to(BOOK)
    wrong = tmp_path / "wrong.ipynb"
    wrong.write_text(NOTEBOOKS[0].read_text().replace("ceil(p / 2), ceil", "ceil(p / 3), ceil"))
    with pytest.raises(RuntimeError, match="AssertionError: ring:7"):
        outputs_of(wrong, run_process)


def test_outputs_are_printed_text_and_the_last_expression(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": ["x = 2\n", "print(x)\n", "x + 1"]}
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps({"cells": [cell, {"cell_type": "markdown"}]}))
    ((printed, value),) = outputs_of(path)
    assert printed["text"] == ["2\n"]
    assert value["data"] == {"text/plain": ["3"]}
    done = run_process(tmp_path, [sys.executable, ROOT / "scripts" / "notebook_outputs.py", path])
    assert (done.status, done.err) == (0, "")
    assert code_cells(json.loads(path.read_text()))[0]["outputs"] == [printed, value]


@pytest.mark.parametrize(("network", "collective"), OF_THE_BOOK)
def test_algorithms_of_the_book_keep_their_rules(network: str, collective: str) -> None:
    load_plugins([BOOK])
    topology = parse_topology(network)
    algorithm = algorithms(topology.family, Collective(collective))["book"]
    check_algorithm(algorithm, topology)
    # The source, a rank far away, and the rank that crashes: the check starts four processes for a rank.
    check_locality(algorithm, topology, ranks=(0, topology.order // 2, topology.order - 1))


@pytest.mark.parametrize("network", ["torus:3x4", "torus:2x2", "torus:3x3x3"])
def test_other_shapes_are_refused(network: str) -> None:
    with pytest.raises(ScenarioError, match="square torus"):
        tb.network(network, plugin=BOOK).broadcast("book")

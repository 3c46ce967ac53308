"""`coordinator graph`."""

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.app import main
from coordinator.theory.graph_properties import NAMES
from emunode.topologies.registry import parse_topology


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["graph", *arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    status, out, _ = output(capsys, *arguments, "--json")
    assert status == 0
    return json.loads(out)


def test_properties_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = output(capsys, "star:4")
    assert (status, err) == (0, "")
    shown = {line[:27].strip(): line[27:].strip() for line in out.splitlines()}
    assert shown["topology"] == "star:4"
    assert shown["degree"] == "3"
    assert shown["girth"] == "6"
    assert shown["bipartite"] == "yes"
    assert shown["distances from rank 0"] == "1 3 6 9 5"
    assert "network sha256: b2dc1cf5e508e8ef53dd0b0554b682ad9bfecc8dee88c3a4a38741df7417e82b" in out.splitlines()
    assert "switches" not in shown


def test_properties_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "ej:2+3")
    assert set(NAMES) <= found.keys()
    assert (found["topology"], found["order"], found["vertex_connectivity"], found["symmetry"]) == (
        "ej:2+3",
        19,
        6,
        "cayley",
    )
    assert found["not_computed"] == {}


def test_what_is_not_computed_has_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "hypercube:40")
    assert found["vertex_connectivity"] is None
    assert found["edge_connectivity"] == 40
    assert found["not_computed"].keys() == {"vertex_connectivity", "network_sha256"}
    _, out, _ = output(capsys, "hypercube:40")
    reason = "vertex connectivity: not computed, no formula is known, and 1,099,511,627,776 nodes are more than 262,144"
    assert reason in out.splitlines()


def test_a_file_with_switches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "rack.topo"
    path.write_text("4 1 3\n3\n" + "".join(f"{host} 3 1Gbps 1ms 0\n" for host in range(3)))
    found = data(capsys, str(path))
    assert (found["topology"], found["switches"], found["girth"]) == ("file:rack", 1, None)
    _, out, _ = output(capsys, str(path))
    shown = {line[:27].strip(): line[27:].strip() for line in out.splitlines()}
    assert (shown["degree"], shown["switches"], shown["girth"]) == ("1..3", "1", "none")


def test_relabel(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "net.edges"
    path.write_text("a=1 b\nb c\n")
    status, out, err = output(capsys, str(path))
    assert (status, out) == (2, "")
    assert "label 'a=1' contains the character '='; rename it, or use --relabel" in err
    assert data(capsys, str(path), "--relabel")["order"] == 3


def test_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "star.svg"
    _, out, _ = output(capsys, "star:4", "--picture", str(path))
    assert out.endswith(f"wrote picture: {path}\n")
    assert path.read_text().count("<circle") == parse_topology("star:4").order
    assert data(capsys, "star:4", "--picture", str(path))["picture"] == str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stra:4",), "did you mean star:4?"),
        (("none.graphml",), "the file cannot be read: No such file"),
        (("star:4", "--relabel"), "only nodes of a file"),
        (("star:4", "--time-limit", "0"), "more than 0, at most 86400 seconds"),
        (("star:4", "--time-limit", "nan"), "more than 0, at most 86400 seconds"),
        (("star:4", "--picture", "/nowhere/star.svg"), "it cannot be written"),
        (("star:12", "--picture", "star.svg"), "too many to draw"),
    ],
)
def test_errors(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    status, out, err = output(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_the_time_limit_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "crossed-cube:13", "--time-limit", "0.001")
    assert found["not_computed"]["vertex_connectivity"] == "it takes more than 0.001 s"
    assert found["order"] == 8192

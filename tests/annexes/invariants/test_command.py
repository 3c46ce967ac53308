"""`coordinator graph`."""

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.annexes.invariants.graph_properties import NAMES
from coordinator.annexes.invariants.registry import INVARIANTS
from coordinator.cli.invoke import main
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
    status, out, err = output(capsys, "star:4", "--work", "2000")
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
    found = data(capsys, "ej:2+3", "--work", "2000")
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
    assert "label 'a=1' contains the character '='; rename it, or call every node by its rank (--relabel" in err
    assert data(capsys, str(path), "--relabel")["order"] == 3


def test_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "star.svg"
    _, out, _ = output(capsys, "star:3", "--picture", str(path))
    assert out.endswith(f"wrote picture: {path}\n")
    assert path.read_text().count("<circle") == parse_topology("star:3").order
    assert data(capsys, "star:3", "--picture", str(path))["picture"] == str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stra:4",), "did you mean star:4?"),
        (("none.graphml",), "the file cannot be read: No such file"),
        (("star:4", "--relabel"), "only a network from a file has names"),
        (("star:4", "--merge-links"), "merge_links"),
        (("star:4", "--time-limit", "0"), "more than 0, at most 86400 seconds"),
        (("star:4", "--time-limit", "nan"), "more than 0, at most 86400 seconds"),
        (("star:4", "--picture", "/nowhere/star.svg"), "it cannot be written"),
        (("star:12", "--picture", "star.svg"), "too many to draw"),
        (("star:4", "--figure", "kappa"), "all, or one of vertex_connectivity, "),
        (("star:4", "--figure", "extra_connectivity:many"), "extra_connectivity:G with g from 0 to 9"),
        (("star:4", "--work", "0"), "more than 0, at most 1e+12"),
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


def test_figures_beside_their_closed_forms(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = output(capsys, "star:4", "--figure", "extra-connectivity:2", "--figure", "fault_diameter")
    assert (status, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["extra", "connectivity,", "g", "=", "2", "5", "5", "1"] in lines
    assert ["fault", "diameter", "4", "5", "6", "6", "2"] in lines
    assert "  1  2n-4 for g = 1, 3n-7 for g = 2; n >= 4" in out.splitlines()
    assert "girth" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_figures_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "hypercube:3", "--figure", "all_terminal_reliability", "--figure", "diagnosability:mm")
    reliability, diagnosability = found["figures"]
    assert reliability["value"] == [1, 12, 66, 212, 408, 384, *[0] * 7]
    assert reliability["survival"]["0.1"] == pytest.approx(0.990662888187)
    assert (diagnosability["value"], diagnosability["closed_form"], diagnosability["agrees"]) == (2, None, None)
    assert [found[name] for name in ("topology", "order", "links", "diameter")] == ["hypercube:3", 8, 12, 3]
    usual = {each["figure"]: each for each in data(capsys, "ej:1+2")["figures"]}
    assert usual.keys() == INVARIANTS.keys()
    assert all(each["not_computed"] is None for each in usual.values())
    assert usual["extra_connectivity"]["value"] is None


def test_counts_of_a_reliability_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = output(capsys, "hypercube:3", "--figure", "all_terminal_reliability")
    assert "1 12 66 212 408 384 0 0 0 0 0 0 0" in out.splitlines()
    assert "0.999992 0.998909 0.990663" in out


def test_figures_that_take_too_much_work(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = output(capsys, "star:4", "--figure", "extra_connectivity", "--work", "500")
    assert "not computed, at least 4, or there is no such set; it takes more than 500 units of work: " in out
    assert "extra connectivity, g = 2; extra connectivity, g = 3" in " ".join(out.split())

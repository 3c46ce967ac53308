"""Every table fits 80 columns, and the filters of `coordinator list`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from coordinator.cli.app import main
from emunode.algorithms.registry import registered

STAR = ("--topology", "star:4", "--collective", "broadcast", "--driver", "memory")
Print = Callable[..., str]


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Print:
    """Run `coordinator` in an empty folder and return its standard output."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        main(list(arguments))
        return capsys.readouterr().out

    return run


def table_lines(text: str) -> list[str]:
    """The lines of the tables: each begins with a blank, and a rule is below its heading."""
    lines = text.splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("───")]
    found = []
    for rule in rules:
        end = next((number for number in range(rule, len(lines)) if not lines[number].strip()), len(lines))
        found += lines[rule - 1 : end]
    return found


TABLES: dict[str, tuple[str, ...]] = {
    "topologies": ("list", "topologies"),
    "algorithms": ("list", "algorithms"),
    "one algorithm": ("list", "algorithms", "replicated-balanced-tree"),
    "faults": ("list", "faults"),
    "plan": ("plan", *STAR, "--algorithm", "greedy-tree"),
    "run": ("run", *STAR, "--algorithm", "greedy-tree", "--out", "run"),
    "campaign": ("campaign", *STAR, "--vary", "algorithm=edt,greedy-tree", "--faults", "nodes=0..2", "--trials", "10"),
    "certify": ("certify", *STAR, "--algorithm", "edt", "--redundancy", "3", "--faults", "nodes<=1"),
    "doctor": ("doctor",),
    "reproductions": ("reproduce",),
    "reproduce": ("reproduce", "johnsson-ho-graphs", "--n", "3"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_fit_80_columns(printed: Print, name: str) -> None:
    lines = table_lines(printed(*TABLES[name]))
    assert lines
    assert max(map(cell_len, lines)) <= 80
    assert not [line for line in lines if "…" in line]


def test_a_comparison_fits_80_columns(printed: Print) -> None:
    for algorithm in ("edt", "greedy-tree", "flood"):
        printed("run", *STAR, "--algorithm", algorithm, "--out", algorithm)
    lines = table_lines(printed("compare", "edt", "greedy-tree", "flood"))
    assert max(map(cell_len, lines)) <= 80
    assert "…" not in "".join(lines)


def test_sources_of_claims_are_listed_in_full_below_the_table(printed: Print) -> None:
    text = printed("run", *STAR, "--algorithm", "greedy-tree", "--out", "run")
    assert "Tseng-Sheu 1997, section 6.1: T = (h + p - 1)(Ts + m/p Tc)\n" in text


# --- filters ---------------------------------------------------------------------------------------------------------


def test_algorithms_are_filtered(printed: Print) -> None:
    import json

    rows = json.loads(printed("list", "algorithms", "--topology", "star:5", "--collective", "broadcast", "--json"))
    assert {(row["topology"], row["collective"]) for row in rows} == {("star", "broadcast")}
    assert {"greedy-tree", "edt", "flood"} <= {row["algorithm"] for row in rows}
    assert "algorithms on star" in printed("list", "algorithms", "--collective", "alltoall")


NAMES = sorted({entry.name for _, entry in registered()})


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_is_described_with_claims_on_an_example(printed: Print, name: str) -> None:
    import json

    described = json.loads(printed("list", "algorithms", name, "--json"))
    assert described
    for each in described:
        assert each["documentation"]
        assert each["duplexes"]
        assert each["example"]
        assert each["claims"]


def test_an_algorithm_in_words(printed: Print) -> None:
    text = printed("list", "algorithms", "EDT", "--collective", "broadcast")
    for words in (
        "edt: broadcast on star",
        "M messages, each down x of the n-1 trees",
        "port models: all-port",
        "claims on",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("ed",), "did you mean 'edt'?"), (("--topology", "ring"), "expected one of star, hypercube, ej")],
)
def test_unknown_names_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert main(["list", "algorithms", *arguments]) == 2
    assert message in capsys.readouterr().err

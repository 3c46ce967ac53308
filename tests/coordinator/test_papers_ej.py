"""Reproductions of Hussain's tables and figures: what is printed, what is run, and that a wrong print is found."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.claims import Verdict
from coordinator.papers import hussain, hussain_allgather
from coordinator.papers.base import ERRATUM, Figure, Lab, Reproduction, Section, Table, laboratory
from emunode.topology.eisenstein_jacobi import EisensteinJacobi

GOLDEN = Path(__file__).parent.parent / "golden" / "ej"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with laboratory(lambda *_: None) as opened:
        yield opened


def golden(name: str, provenance: str) -> list[dict[str, str]]:
    with (GOLDEN / f"{name}.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["provenance"] == provenance]


def carry_out(lab: Lab, about: Reproduction, n: int) -> list[Section]:
    return list(about.build(replace(lab, sizes=about.over(n))))


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("about", [hussain.REPRODUCTION, hussain_allgather.REPRODUCTION], ids=lambda about: about.name)
def test_every_row_holds_in_small_networks(about: Reproduction, n: int, lab: Lab) -> None:
    tables = [section for section in carry_out(lab, about, n) if isinstance(section, Table)]
    for table in tables:
        assert all({*row} == {*table.columns} for row in table.rows)
        assert table.verdicts == [Verdict.HOLDS] * len(table.rows), [
            row for row in table.rows if row["verdict"] != "holds"
        ]
        marked = any(ERRATUM in str(value) for row in table.rows for value in row.values())
        assert not marked or any(note.startswith(ERRATUM) for note in table.notes), table.title


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("table1_previous_EJ3+4rho_3D", hussain.TABLE_1),
        ("table2_improved_EJ3+4rho_3D", hussain.TABLE_2),
    ],
)
def test_tables_1_and_2_are_printed_so(name: str, printed: tuple[tuple[int, ...], ...]) -> None:
    rows = [row for row in golden(name, "paper") if row["free"]]
    assert [tuple(int(row[column]) for column in hussain.STEP_COLUMNS) for row in rows] == list(printed)


@pytest.mark.parametrize("algorithm", hussain.ALGORITHMS)
def test_tables_1_and_2_are_predicted_so(algorithm: str) -> None:
    """The runs of 50,653 nodes are left to `coordinator reproduce hussain-broadcast`."""
    network = EisensteinJacobi(3, 4, 3)
    counted = hussain.Counted(network, hussain.ALGORITHMS[algorithm](network), None)
    assert counted.predicted == list(hussain.TABLE_1 if algorithm == hussain.PREVIOUS else hussain.TABLE_2)


def test_table_3_is_printed_so() -> None:
    rows = golden("table3_total_senders_EJ3+4rho", "paper")
    columns = ("previous_total_senders", "improved_total_senders", "difference")
    assert [tuple(int(row[column]) for column in columns) for row in rows] == [row[:3] for row in hussain.TABLE_3]
    assert [row["ratio_previous_over_improved"] for row in rows] == [row[3] for row in hussain.TABLE_3]


def test_figures_19_to_21_are_counted_so(lab: Lab) -> None:
    rows = [row for row in golden("fig19_21_twelve_step_networks", "computed") if row["alpha"].endswith("rho")]
    assert len(rows) == 2 * 12 * len(hussain.TWELVE_STEPS)
    names = {"previous": hussain.PREVIOUS, "improved": hussain.PROPOSED}
    for row in rows:
        a, b = (int(part) for part in row["alpha"].removesuffix("rho").split("+"))
        found = hussain.counted(lab, names[row["algorithm"]], a, b, int(row["n"]), run=False)
        expected = tuple(int(row[key]) for key in ("free", "senders_fig19", "receivers_fig20", "active_fig21"))
        assert found.predicted[int(row["step"]) - 1] == expected


def test_a_wrong_print_is_violated(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ((19, 19, 0, "1"), (722, 703, 19, "1.027027027"), (26733, 26011, 723, "1.027757487"))
    monkeypatch.setattr(hussain, "TABLE_3", wrong)
    (table,) = (s for s in carry_out(lab, hussain.REPRODUCTION, 1) if isinstance(s, Table) and "Table 3" in s.title)
    assert table.verdicts == [Verdict.HOLDS, Verdict.HOLDS, Verdict.VIOLATED]


def test_a_printed_step_that_was_not_measured_is_violated(lab: Lab) -> None:
    found = hussain.counted(lab, hussain.PROPOSED, 3, 4, 1, run=True)
    right = found.predicted
    assert {row["verdict"] for row in hussain._steps(found, right)} == {"holds"}
    wrong = [*right[:2], (right[2][0], right[2][1] + 1, *right[2][2:])]
    assert [row["verdict"] for row in hussain._steps(found, wrong)] == ["holds", "holds", "violated", "violated"]


def test_figures_of_three_dimensions_hold_both_algorithms(lab: Lab) -> None:
    """Drawn here of one dimension: lines of what is predicted, a mark a step of what was measured."""
    pair = [hussain.counted(lab, name, 3, 4, 1, run=True) for name in hussain.ALGORITHMS]
    figure = hussain._by_step("Figure 15", 1, pair)
    assert isinstance(figure, Figure)
    assert figure.svg.count("<title>previous: ") == figure.svg.count("<title>proposed: ") == 3
    assert "senders in each step of EJ_{3+4rho}" in figure.svg


def test_the_printed_all_to_all_broadcast_is_incomplete_from_two_dimensions_on() -> None:
    assert hussain_allgather.reached_as_printed(EisensteinJacobi(2, 3, 1)) == 18
    assert hussain_allgather.reached_as_printed(EisensteinJacobi(1, 2, 2)) == 24
    assert hussain_allgather.reached_as_printed(EisensteinJacobi(3, 4, 3)) == 6588

"""Counts of the Eisenstein-Jacobi broadcasts: the paper's tables and figures, its formulas and their errata, any alpha."""

import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest

from emunode.algorithms.eisenstein_jacobi import counts as ej_counts
from emunode.algorithms.eisenstein_jacobi.counts import StepCounts
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.trees.base import levels
from emunode.trees.eisenstein_jacobi.sectors import SectorTree
from tests.helpers.support import golden_rows

golden = partial(golden_rows, "ej")
BY_NAME: dict[str, Callable[[EisensteinJacobi], StepCounts]] = {
    "previous": ej_counts.iterative,
    "improved": ej_counts.improved,
}
TWELVE_STEPS = [(1, 2, 12), (2, 3, 6), (3, 4, 4), (4, 5, 3), (6, 7, 2)]
GENERAL = [(0, 3, 2), (2, 2, 2), (1, 3, 2), (2, 4, 1), (2, 4, 2), (1, 4, 2), (3, 3, 2), (0, 5, 1), (4, 4, 1), (2, 2, 3)]


def cells(line: dict[str, str], *names: str) -> tuple[int, ...]:
    return tuple(int(line[name]) for name in names)


# The paper's tables and figures.

ATTRIBUTES = ("free", "senders", "receivers", "active")
TABLES = [
    # file, lines with a step, name of the column of the step, columns of free, sending, receiving and active nodes
    ("worked_example_EJ2+3rho_2D", 12, "step", ("free", "sending", "receiving", "active")),
    ("table1_previous_EJ3+4rho_3D", 18, "global_step", ("free", "sending", "receiving", "active")),
    ("table2_improved_EJ3+4rho_3D", 18, "step", ("free", "sending", "receiving", "active")),
    ("fig15_18_EJ3+4rho_3D", 18, "step", ("free_fig17", "senders_fig15", "receivers_fig16", "active_fig18")),
    ("fig22_senders_EJ3+4rho_4D-6D", 90, "step", ("", "senders", "receivers", "")),
]


@pytest.mark.parametrize(("name", "length", "step", "columns"), TABLES, ids=[name for name, *_ in TABLES])
def test_counts_of_a_table_or_figure(name: str, length: int, step: str, columns: tuple[str, ...]) -> None:
    """Every printed number; a table without a column for the algorithm or the dimensions has them in its name."""
    lines = [line for line in golden(name) if line[step]]
    assert len(lines) == length
    for line in lines:
        algorithm = line.get("algorithm") or name.split("_")[1]
        counts = BY_NAME[algorithm](EisensteinJacobi(*network_in(name, line)))
        for attribute, column in zip(ATTRIBUTES, columns, strict=True):
            if column and line[column]:
                assert getattr(counts, attribute)[int(line[step]) - 1] == int(line[column]), (line, attribute)


def network_in(name: str, line: dict[str, str]) -> tuple[int, int, int]:
    """Return (a, b, dimensions) from a name such as `table1_previous_EJ3+4rho_3D`, or with the dimensions of the line."""
    a, b, dimensions = re.findall(r"EJ(\d)\+(\d)rho_(\d)D", name)[0]
    return int(a), int(b), int(line.get("n") or dimensions)


def test_table_3() -> None:
    lines = golden("table3_total_senders_EJ3+4rho")
    assert {int(line["n"]) for line in lines} == set(range(1, 7))
    for line in lines:
        network = EisensteinJacobi(3, 4, int(line["n"]))
        old, new = ej_counts.iterative(network).total_senders, ej_counts.improved(network).total_senders
        assert (old, new, old - new) == cells(line, "previous_total_senders", "improved_total_senders", "difference")
        # the paper cuts its ratios off after nine digits
        assert old / new == pytest.approx(float(line["ratio_previous_over_improved"]), abs=1e-9)
        if line["saving_1-improved/previous"]:
            assert float(ej_counts.saving(network)) == pytest.approx(
                float(line["saving_1-improved/previous"]), abs=5e-7
            )
        assert ej_counts.recurrence(network).total_senders == new


def test_figures_19_to_21() -> None:
    lines = golden("fig19_21_twelve_step_networks")
    networks = {f"{a}+{b}rho": EisensteinJacobi(a, b, n) for a, b, n in TWELVE_STEPS}
    assert len(lines) == 192
    for line in lines:
        step, count = int(line["step"]), BY_NAME[line["algorithm"]]
        if line["alpha"] in networks:
            counts = count(networks[line["alpha"]])
            assert counts.steps == 12
            found = tuple(getattr(counts, attribute)[step - 1] for attribute in ATTRIBUTES)
            assert found == cells(line, "free", "senders_fig19", "receivers_fig20", "active_fig21")
            continue
        all_counts = [count(network) for network in networks.values()]
        for column, figure in (("senders", 19), ("receivers", 20), ("active", 21)):
            mean = ej_counts.mean_by_step([getattr(counts, column) for counts in all_counts])[step - 1]
            assert mean == Fraction(line[f"{column}_fig{figure}"])


def test_averages_and_savings() -> None:
    for line in golden("average_steps_and_savings"):
        network = EisensteinJacobi(*cells(line, "a", "b", "n"))
        old, new = ej_counts.iterative(network), ej_counts.improved(network)
        assert (network.order, new.steps) == cells(line, "nodes", "steps")
        assert old.total_senders == int(line["total_senders_previous"])
        assert new.total_senders == int(line["total_senders_improved"])
        measured = (
            old.average_receive_step,
            new.average_receive_step,
            old.average_receive_step - new.average_receive_step,
            ej_counts.saving(network),
        )
        names = ("avg_step_previous", "avg_step_improved", "gain", "saving")
        assert [float(value) for value in measured] == pytest.approx([float(line[name]) for name in names], abs=5.1e-7)


# Formulas.


def test_formulas_12_and_13() -> None:
    """(12) holds for rounds 1..n, (13) but for the first step of each round."""
    network = EisensteinJacobi(3, 4, 3)
    counts = ej_counts.iterative(network)
    for line in golden("formulas_12_13_EJ3+4rho_3D"):
        round_, step = cells(line, "round_r(1-based)", "step_d")
        place = 3 * (round_ - 1) + step - 1
        senders, receivers = counts.senders[place], counts.receivers[place]
        assert ej_counts.formula_12(network, round_, step) == int(line["numR=6dN^(r-1)"]) == receivers
        assert ej_counts.formula_13(network, round_, step) == int(line["numS=6(d-1)N^(r-1)"])
        assert senders == int(line["senders_measured"])
        assert (ej_counts.formula_13(network, round_, step) == senders) == (line["holds13"] == "True") == (step > 1)


@pytest.mark.parametrize(("a", "n"), [(a, n) for a in range(1, 7) for n in range(1, 8)] + [(1, 12)])
def test_recurrences_agree_with_the_generating_functions(a: int, n: int) -> None:
    network = EisensteinJacobi(a, a + 1, n)
    assert ej_counts.recurrence(network) == ej_counts.improved(network)


@pytest.mark.parametrize(("a", "b", "n"), [(1, 2, 3), (2, 3, 2), (3, 4, 1), (3, 4, 2), (3, 4, 3), *GENERAL])
def test_counts_are_those_of_the_tree(a: int, b: int, n: int) -> None:
    """For every alpha, against a walk down the tree."""
    network = EisensteinJacobi(a, b, n)
    tree = SectorTree(network)
    found = levels(tree, 0)
    receivers = Counter(found.values())
    senders = Counter(level + 1 for rank, level in found.items() if tree.children(rank, 0))
    counts = ej_counts.improved(network)
    assert counts.receivers == tuple(receivers[step] for step in range(1, network.diameter + 1))
    assert counts.senders == tuple(senders[step] for step in range(1, network.diameter + 1))
    assert counts.receivers == network.distance_distribution()[1:]
    assert counts.average_receive_step == network.average_distance


@pytest.mark.parametrize(("a", "b", "n"), [*TWELVE_STEPS, *GENERAL])
def test_both_algorithms_reach_every_node_in_n_times_d_steps(a: int, b: int, n: int) -> None:
    network = EisensteinJacobi(a, b, n)
    for counts in (ej_counts.iterative(network), ej_counts.improved(network)):
        assert sum(counts.receivers) == network.order - 1
        assert counts.steps == len(counts.senders) == network.diameter
        assert all(min(column) >= 0 for column in (counts.free, counts.senders, counts.receivers))

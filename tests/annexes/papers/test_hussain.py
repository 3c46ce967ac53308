"""Reproductions of Hussain: printed numbers, runs, and detection of wrong prints."""

import networkx as nx
import pytest

from coordinator.annexes.papers import hussain
from coordinator.annexes.papers.base import Figure, Reproduction
from coordinator.annexes.papers.hussain import allgather, broadcast, distances, node_counts
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import Table
from coordinator.results.claims import Verdict
from emunode.errors import ScenarioError
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from tests.annexes.papers.support import (
    Sections,
    carry_out,
    figures_of,
    golden,
    require_sound,
    table_at,
    table_in,
    tables_of,
)


def rows_of(name: str, provenance: str) -> list[dict[str, str]]:
    return [row for row in golden("ej", name) if row["provenance"] == provenance]


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(
    ("about", "n"),
    [
        *((about, 1) for about in (hussain.network.REPRODUCTION, broadcast.REPRODUCTION, allgather.REPRODUCTION)),
        (hussain.network.REPRODUCTION, 2),
        (broadcast.REPRODUCTION, 2),
        pytest.param(allgather.REPRODUCTION, 2, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_no_row_is_violated_in_small_networks(
    about: Reproduction, n: int, run_cache: RunCache, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    if not pytestconfig.getoption("--all"):
        # The proof for the largest network takes longer than all others.
        monkeypatch.setattr(hussain.network, "PLANAR", [case for case in hussain.network.PLANAR if case != (5, 6, 1)])
    for table in tables_of(carry_out(run_cache, about, n)).values():
        require_sound(table)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("table1_previous_EJ3+4rho_3D", broadcast.TABLE_1),
        ("table2_improved_EJ3+4rho_3D", broadcast.TABLE_2),
    ],
)
def test_printed_tables_1_and_2_match_the_golden_files(name: str, printed: tuple[tuple[int, ...], ...]) -> None:
    rows = [row for row in rows_of(name, "paper") if row["free"]]
    assert [tuple(int(row[column]) for column in node_counts.STEP_COLUMNS) for row in rows] == list(printed)


@pytest.mark.parametrize("algorithm", node_counts.ALGORITHMS)
def test_theory_predicts_tables_1_and_2(algorithm: str) -> None:
    """Runs with 50,653 nodes are part of `coordinator reproduce hussain-broadcast`."""
    network = EisensteinJacobi(3, 4, 3)
    counted = node_counts.Counted(network, node_counts.ALGORITHMS[algorithm](network), None)
    assert counted.predicted == list(broadcast.TABLE_1 if algorithm == node_counts.PREVIOUS else broadcast.TABLE_2)


def test_printed_table_3_matches_the_golden_file() -> None:
    rows = rows_of("table3_total_senders_EJ3+4rho", "paper")
    columns = ("previous_total_senders", "improved_total_senders", "difference")
    assert [tuple(int(row[column]) for column in columns) for row in rows] == [row[:3] for row in broadcast.TABLE_3]
    assert [row["ratio_previous_over_improved"] for row in rows] == [row[3] for row in broadcast.TABLE_3]


def test_a_wrong_print_is_violated(run_cache: RunCache, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ((19, 19, 0, "1"), (722, 703, 19, "1.027027027"), (26733, 26011, 723, "1.027757487"))
    monkeypatch.setattr(broadcast, "TABLE_3", wrong)
    table = table_at(run_cache, broadcast.REPRODUCTION, 1, "Table 3")
    assert table.statuses == ["holds", "evaluated", "violated"]


def test_a_printed_step_that_differs_is_violated(run_cache: RunCache) -> None:
    found = node_counts.counted(run_cache, node_counts.PROPOSED, 3, 4, 1, run=True)
    right = found.predicted
    assert {row["verdict"] for row in broadcast._steps(found, right)} == {"holds"}
    wrong = [*right[:2], (right[2][0], right[2][1] + 1, *right[2][2:])]
    assert [row["verdict"] for row in broadcast._steps(found, wrong)] == [
        "holds",
        "holds",
        "violated",
        "violated",
    ]


def test_figures_of_three_dimensions_show_both_algorithms(run_cache: RunCache) -> None:
    """Drawn here for one dimension: a line for the prediction, one mark per step for the measurement."""
    pair = [node_counts.counted(run_cache, name, 3, 4, 1, run=True) for name in node_counts.ALGORITHMS]
    figure = broadcast._by_step("Figure 15", 1, pair)
    assert isinstance(figure, Figure)
    assert figure.svg.count("<title>previous: ") == figure.svg.count("<title>proposed: ") == 3
    assert "senders in each step of EJ_{3+4rho}" in figure.svg


def test_the_printed_allgather_is_incomplete_from_two_dimensions() -> None:
    assert allgather.reached_as_printed(EisensteinJacobi(2, 3, 1)) == 18
    assert allgather.reached_as_printed(EisensteinJacobi(1, 2, 2)) == 24
    assert allgather.reached_as_printed(EisensteinJacobi(3, 4, 3)) == 6588


@pytest.mark.parametrize("n", [1, 2])
def test_rows_without_a_run_are_evaluated(n: int, sections: Sections) -> None:
    """Table 3 and the networks of twelve steps include networks that are not run."""
    totals = table_in(sections(broadcast.REPRODUCTION, n), "Table 3")
    assert totals.statuses == ["holds" if row["n"] == n else "evaluated" for row in totals.rows]
    twelve = table_in(sections(broadcast.REPRODUCTION, n), "Networks of twelve steps")
    measured = [row["measured"] is not None for row in twelve.rows]
    assert [status == "holds" for status in twelve.statuses] == measured
    assert not all(measured)


# --- the network -----------------------------------------------------------------------------------------------------


def test_eq_10_is_right_with_fractions_and_wrong_if_rounded() -> None:
    counts: dict[tuple[int, int], list[int]] = {}
    for row in golden("ej", "distance_distribution"):
        assert row["W_bfs"] == row["W_formula10"]
        counts.setdefault((int(row["a"]), int(row["b"])), []).append(int(row["W_bfs"]))
    assert all(list(hussain.network.formula_10(*alpha)) == expected for alpha, expected in counts.items())
    wrong = [alpha for alpha in counts if list(hussain.network.formula_10(*alpha, floored=True)) != counts[alpha]]
    assert (0, 5) in wrong
    assert (3, 4) not in wrong


def test_a_kuratowski_subgraph_is_checked() -> None:
    within = nx.complete_graph(9)
    five, utility = nx.complete_graph(5), nx.complete_bipartite_graph(3, 3)
    assert hussain.network.kuratowski(five, within) == "K5"
    assert hussain.network.kuratowski(utility, within) == "K3,3"
    utility.remove_edge(0, 3)
    nx.add_path(utility, [0, 6, 7, 3])
    assert hussain.network.kuratowski(utility, within) == "K3,3"
    assert hussain.network.kuratowski(utility, nx.complete_graph(7)) is None
    five.remove_edge(0, 1)
    assert hussain.network.kuratowski(five, within) is None
    assert hussain.network.kuratowski(nx.cycle_graph(5), within) is None


@pytest.mark.parametrize("alpha", [(1, 2), (2, 2), (0, 3), (3, 4)])
def test_one_dimension_lies_on_a_torus(alpha: tuple[int, int]) -> None:
    assert hussain.network.genus_of_torus(EisensteinJacobi(*alpha, 1)) == 1


# --- misprints that run ----------------------------------------------------------------------------------------------


def test_the_misprint_of_line_6_misses_what_is_expected(sections: Sections) -> None:
    rows = [row for n in (1, 2) for row in table_in(sections(broadcast.REPRODUCTION, n), "misprint").rows]
    found = {row["network"]: (row["measured"], row["received again"]) for row in rows}
    expected = [
        row for row in golden("ej", "o2a_variants") if "line 6 as printed" in row["variant"] and row["n"] != "3"
    ]
    assert len(found) == len(expected) == 6
    for row in expected:
        network = node_counts.name_of(EisensteinJacobi(int(row["a"]), int(row["b"]), int(row["n"])))
        assert found[network] == (int(row["nodes"]) - int(row["missing"]), int(row["duplicates"]))


READINGS = {
    "paper, own message restarted by EVERY packet with step>nM": "three-phase-restart-own",
    "paper, CARRIED message restarted by every packet with step>nM": "three-phase-restart",
}


def test_literal_restarts_multiply_traffic_as_expected(run_cache: RunCache) -> None:
    found = 0
    for row in golden("ej", "a2a_summary"):
        if row["algorithm"] not in READINGS:
            continue
        name = f"ej:{row['a']}+{row['b']}" + (f"^{row['n']}" if row["n"] != "1" else "")
        trial = run_cache.run(name, "allgather", READINGS[row["algorithm"]], duplex="half")
        assert trial.verdict is Verdict.VIOLATED
        assert trial.number("segments") == int(row["events"])
        assert trial.number("intact_deliveries") == int(row["want"]) - int(row["missing"])
        assert trial.number("duplicates") == int(row["dups"]) + int(row["self_receipts"])
        assert trial.number("packets") == int(row["frames"])
        assert trial.number("max_link_segments_per_step") == int(row["max_packets_per_link_step"])
        assert trial.number("illegal_hops") == 0
        found += 1
    assert found == 8


@pytest.mark.parametrize("algorithm", ["three-phase-restart", "three-phase-restart-own", "improved-printed"])
def test_misprints_run_only_for_the_alpha_of_the_paper(algorithm: str, run_cache: RunCache) -> None:
    collective = "broadcast" if algorithm == "improved-printed" else "allgather"
    with pytest.raises(ScenarioError, match="printed for alpha"):
        run_cache.run("ej:1+3", collective, algorithm)
    with pytest.raises(ScenarioError, match="whole messages"):
        run_cache.run("ej:1+2", collective, algorithm, segments=2)


# --- figures ---------------------------------------------------------------------------------------------------------


def test_determined_figures_are_drawn_and_the_others_are_listed(run_cache: RunCache) -> None:
    sections = list(hussain.figures.REPRODUCTION.sections(run_cache))
    assert [figure.title.partition(":")[0] for figure in figures_of(sections)] == [
        f"Figure {number}" for number in range(1, 12)
    ]
    checks, left_out = tables_of(sections).values()
    assert {row["figure"] for row in checks.rows} == {*range(1, 12)}
    assert set(checks.statuses) == {"holds"}
    assert [row["item"] for row in left_out.rows] == ["figure 12", "figure 13", "figure 14"]
    assert set(left_out.statuses) == {"not measured"}


# --- equations (1), (2) and (11), and the points of figures 19 to 21 -----------------------------------------------------


def test_congruent_integers_have_one_residue() -> None:
    """alpha = 3 + 4 rho and alpha rho = -4 + 7 rho are congruent to 0; 1 is not."""
    assert distances.residue((3, 4), 3, 4) == distances.residue((-4, 7), 3, 4) == (0, 0)
    assert distances.residue((1, 0), 3, 4) != (0, 0)


def test_equations_1_2_and_11_hold_and_a_wrong_weight_does_not(
    run_cache: RunCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Table(
        "Eqs. (1) and (2)", (row for a, b in hussain.network.ALPHAS for row in distances.distances(run_cache, a, b))
    )
    for table in (one, Table("Eq. (11)", distances.products(run_cache))):
        require_sound(table)
        assert set(table.statuses) == {"holds"}
    own = distances.weights
    monkeypatch.setattr(distances, "weights", lambda a, b: {key: max(1, value) for key, value in own(a, b).items()})
    assert [row["verdict"] for row in distances.distances(run_cache, 1, 2)] == ["violated"] * 2


def test_points_of_figures_19_to_21_are_means_of_five_networks(sections: Sections) -> None:
    table = table_in(sections(hussain.broadcast.REPRODUCTION, 2), "Figures 19 to 21")
    require_sound(table)
    points: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    for point in rows_of("fig19_21_twelve_step_networks", "computed"):
        if point["alpha"].endswith("rho"):
            values = tuple(int(point[column]) for column in ("senders_fig19", "receivers_fig20", "active_fig21"))
            points.setdefault((point["algorithm"], point["step"]), []).append(values)
    assert len(table.rows) == 24
    for row in table.rows:
        name = {"previous": "previous", "proposed": "improved"}[str(row["algorithm"])]
        wanted = points[name, str(row["step"])]
        means = [sum(column) / len(wanted) for column in zip(*wanted, strict=True)]
        shown = [float(value.replace(",", "")) for value in str(row["five networks"]).split(" / ")]
        assert len(wanted) == 5
        assert shown == pytest.approx(means, abs=0.06)
        assert row["measured"] == row["predicted"]

"""The table of sizes of lessons: its rows are the algorithms of the papers, and a sample has the size that it says."""

import pytest

from lesson_sizes import NETWORKS, PAGE, Named, measured, read_tables, rows_of

SIZES = read_tables(PAGE.read_text())


def test_the_tables_have_every_algorithm_of_the_papers() -> None:
    text = PAGE.read_text()
    missing = [row for family in NETWORKS for row in rows_of(family) if f"| {' | '.join(row)} |" not in text]
    assert missing == []


@pytest.mark.exhaustive(one_in=60)
@pytest.mark.parametrize(("network", "row"), [pytest.param(*cell, id=" ".join([cell[0], *cell[1]])) for cell in SIZES])
def test_a_lesson_has_the_size_of_its_row(network: str, row: Named) -> None:
    said, found = SIZES[network, row], measured(network, row)
    if said.startswith("refused"):
        assert found == said
    else:
        assert abs(float(found.replace(",", "")) - float(said.replace(",", ""))) <= 3

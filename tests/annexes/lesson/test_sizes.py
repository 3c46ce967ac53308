"""The table of sizes of lessons: every algorithm of the papers is in it, each size is true, each branch a fresh run."""

from itertools import islice
from pathlib import Path

import pytest

import lesson_sizes
from tests.annexes.lesson.lessons import Made
from tests.annexes.lesson.test_branches import fresh

SIZES = lesson_sizes.read_tables(lesson_sizes.PAGE.read_text())
CELLS = [
    pytest.param(
        *cell, id=" ".join((cell[0], *cell[1])), marks=pytest.mark.slow if float(size.replace(",", "")) > 50 else ()
    )
    for cell, size in SIZES.items()
]
"""The cells of the tables; lessons of more than 50 kB have hundreds of branches."""


def test_the_tables_have_every_algorithm_of_the_papers() -> None:
    text = lesson_sizes.PAGE.read_text()
    rows = [row for family in lesson_sizes.NETWORKS for row in lesson_sizes.rows_of(family)]
    assert [row for row in rows if f"| {' | '.join(row)} |" not in text] == []


@pytest.mark.exhaustive(one_in=60)
@pytest.mark.parametrize(("network", "row"), CELLS)
def test_lessons_of_papers_are_fresh_runs(network: str, row: lesson_sizes.Named, tmp_path: Path) -> None:
    """Sizes are held to 3 kB, so that words of the page may change; one branch in eleven is run."""
    values = lesson_sizes.values_of(network, row)
    scenario = " ".join([network, *row, *(f"{name}={value}" for name, value in [*values.items()][3:])])
    made = Made(tmp_path, scenario)
    assert made.page.stat().st_size / 1000 == pytest.approx(float(SIZES[network, row].replace(",", "")), abs=3)
    for fault, judged, digest in islice(made.journals(), 0, None, 11):
        claims = [[name, measured, verdict] for name, _, measured, verdict, _ in judged["claims"]]
        assert (digest, judged["verdict"], claims) == fresh(scenario, fault), fault

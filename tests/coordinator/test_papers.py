"""The star graph beside the hypercube: the papers' bounds, and what meets them."""

import csv
from pathlib import Path

import pytest

from coordinator.cli import main
from coordinator.papers.star_against_hypercube import PROBLEMS, networks, rows
from emunode.errors import ScenarioError
from emunode.topology.hypercube import Hypercube

GOLDEN = Path(__file__).parent.parent / "golden" / "star" / "hypercube_bounds.csv"
NAMES = {"multinode broadcast": "MNB", "single node scatter": "SNS", "total exchange": "TE"}


def golden() -> list[dict[str, str]]:
    with GOLDEN.open() as file:
        return [row for row in csv.DictReader(file) if row["problem"] in NAMES.values()]


@pytest.mark.parametrize("row", golden(), ids=lambda row: f"C_{row['k']}-{row['problem']}")
def test_bounds_of_table_5(row: dict[str, str]) -> None:
    problem = next(problem for problem in PROBLEMS if NAMES[problem.name] == row["problem"])
    network = Hypercube(int(row["k"]))
    assert problem.transmissions(network) == int(row["transmissions"])
    assert problem.one_port(network) == int(row["time_SLA"])
    assert problem.all_port(network) == int(row["time_MLA"])


@pytest.mark.parametrize("n", [3, 4])
def test_runs_meet_the_bounds(n: int) -> None:
    star, cube = networks(n)
    for row in rows(n):
        if str(row["problem"]).startswith("broadcast over"):
            continue
        for network in (star, cube):
            measured, bound = row[f"{network.name} measured"], row[f"{network.name} bound"]
            assert isinstance(measured, int | float)
            assert isinstance(bound, int)
            assert bound - 1 < measured <= bound, row


def test_sizes_and_names_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ScenarioError, match=r"3\.\.5"):
        networks(9)
    assert main(["reproduce", "table-99"]) == 2
    assert "star-against-hypercube" in capsys.readouterr().err
    assert main(["reproduce"]) == 0

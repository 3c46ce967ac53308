"""Scaffolds: each is a right submission as it stands, and bad names are refused."""

from pathlib import Path

import pytest

from coordinator.annexes.grading.marks import MarkVerdict
from coordinator.annexes.grading.scaffold import TARGETS, algorithm_text, network_text
from emunode.errors import ScenarioError
from emunode.model import Collective
from tests.annexes.grading.submissions import findings, graded, marks


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("collective", [*TARGETS, Collective.REDUCE])
def test_scaffold_passes(tmp_path: Path, collective: Collective) -> None:
    found = graded(tmp_path, algorithm_text("my-way", "star", collective, "mine.py"))
    assert (findings(found), found.verdict) == ("", MarkVerdict.PASS)


def test_network_scaffold_passes(tmp_path: Path) -> None:
    found = graded(tmp_path, network_text("my-ring", "mine.py"))
    assert (findings(found), found.verdict) == ("", MarkVerdict.PASS)
    assert marks(found)["links"].cases == 3


def test_scaffolds_refuse_bad_names() -> None:
    for name, family in (("Bad Name", "star"), ("edt", "star"), ("flood", "any"), ("a" * 41, "star"), ("x", "nowhere")):
        with pytest.raises(ScenarioError):
            algorithm_text(name, family, Collective.BROADCAST, "x.py")
    with pytest.raises(ScenarioError, match="there is a family"):
        network_text("star", "x.py")

"""Sections, tables, lemmas and theorems that claims cite exist in the paper that they name."""

import re
from functools import cache

import pytest

from coordinator.planning.claims import fault_free_claims
from emunode.algorithms.registry import algorithms
from emunode.algorithms.star.bounds import DISJOINT, MULTIPLE, REPORT
from emunode.errors import ScenarioError
from emunode.model import Collective, PortModel
from tests.helpers.scenarios import Case

IN_PAPER: dict[str, dict[str, set[str]]] = {
    MULTIPLE: {
        "section": {"2", "3", "4", "4.1", "4.2", "5", "5.1", "5.2", "6", "6.1", "6.2", "7"},
        "table": {"1", "2"},
        "lemma": {"1", "2", "3", "4", "5", "6", "7"},
        "theorem": {"1", "2", "3"},
    },
    REPORT: {
        "section": {"1", "2", "3", "3.1", "3.1.1", "3.1.2", "3.2", "4", "5", "5.1", "5.2", "6", "7", "8", "9"},
        "table": {"1", "2", "3", "4", "5", "6"},
        "lemma": set(),
        "theorem": {
            *map(str, range(1, 11)), *(f"8.{part}" for part in range(1, 4)), *(f"9.{part}" for part in range(1, 6)),
            *(f"10.{part}" for part in range(1, 8)),
        },
    },
    DISJOINT: {"section": set(), "table": set(), "lemma": set(), "theorem": set()},
}  # fmt: skip
"""The numbered items of the texts at hand; the numbers of the third are lost."""

PLACE = re.compile(r"\b(section|table|lemma|theorem)s? ((?:\d+(?:\.\d+)*)(?:(?:, | and | to )\d+(?:\.\d+)*)*)")


@cache
def cited() -> set[str]:
    """Return every source of a claim about a star graph."""
    sources: set[str] = set()
    for collective in Collective:
        for name in algorithms("star", collective):
            for port_model in PortModel:
                for redundancy in (1, 2):
                    values = {
                        "driver": "memory", "topology": "star:4", "collective": collective, "algorithm": name,
                        "port_model": port_model, "messages": 3, "redundancy": redundancy,
                    }  # fmt: skip
                    try:
                        plan = Case(values).plan
                    except ScenarioError:
                        continue
                    sources |= {claim.source for claim in fault_free_claims(plan).kept}
    return sources


@pytest.mark.parametrize("paper", IN_PAPER)
def test_cited_sections_and_theorems_exist(paper: str) -> None:
    sources = {source for source in cited() if source.startswith(paper)}
    assert sources
    for source in sources:
        for kind, numbers in PLACE.findall(source):
            wrong = set(re.findall(r"\d+(?:\.\d+)*", numbers)) - IN_PAPER[paper][kind]
            assert not wrong, source


def test_bounds_of_several_trees_cite_the_paper_on_several_trees() -> None:
    values = {"driver": "memory", "topology": "star:4", "algorithm": "edt", "redundancy": 3}
    for collective in ("scatter", "gather", "alltoall"):
        claims = fault_free_claims(Case(values, collective=collective).plan).kept
        bounds = [claim.source for claim in claims if ": lower bound " in claim.source]
        assert bounds
        assert all(source.startswith(DISJOINT) and "table" not in source for source in bounds)

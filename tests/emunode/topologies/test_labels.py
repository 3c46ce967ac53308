"""Malformed names and labels: each is refused by a ScenarioError that shows the allowed form."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.errors import ScenarioError
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.registry import descriptions, parse_topology
from tests.helpers.support import examples, golden_rows

BAD_NAMES = [(row["name"], row["allowed"]) for row in golden_rows("", "refused_names")]
BAD_NAMES.append(("star:" + "9" * 10_000, "star:N"))


@pytest.mark.parametrize(("text", "allowed"), BAD_NAMES, ids=[name[:40] for name, _ in BAD_NAMES])
def test_bad_name_is_refused(text: str, allowed: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_topology(text)
    assert caught.value.field == "topology"
    assert caught.value.value == text
    assert allowed in caught.value.allowed


def test_equal_networks_have_one_canonical_name() -> None:
    assert parse_topology("ej:3+4^1").name == "ej:3+4"
    assert parse_topology("star:05").name == "star:5"


def test_negative_alpha_is_refused() -> None:
    with pytest.raises(ScenarioError, match="0 <= a <= b"):
        EisensteinJacobi(-1, 4)


BAD_LABELS = [(row["topology"], row["label"], row["allowed"]) for row in golden_rows("", "refused_labels")]
BAD_LABELS.append(("ej:3+4", "1" * 10_000 + ",0", "x,y for x + y rho"))


@pytest.mark.parametrize(("name", "label", "allowed"), BAD_LABELS, ids=[f"{n}-{t[:20]}" for n, t, _ in BAD_LABELS])
def test_bad_label_is_refused(name: str, label: str, allowed: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_topology(name).rank(label)
    assert caught.value.field == "label"
    assert caught.value.value == label
    assert allowed in caught.value.allowed


@given(
    st.sampled_from([family.example for family in descriptions()]),
    st.text("0123456789abceghio,./-", max_size=12) | st.text(max_size=12),
)
@settings(derandomize=True, deadline=None, database=None, max_examples=examples(1000))
def test_any_text_is_a_label_or_refused(name: str, text: str) -> None:
    topology = parse_topology(name)
    try:
        rank = topology.rank(text)
    except ScenarioError:
        return
    assert topology.label(rank) == text


@given(st.one_of(st.text(max_size=12), st.from_regex(r"\A(star|hypercube|ej):[0-9+^]{0,6}\Z")))
@settings(derandomize=True, deadline=None, database=None)
def test_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        topology = parse_topology(text)
    except ScenarioError:
        return
    assert parse_topology(topology.name).name == topology.name


PARAMETERS = st.lists(st.integers(0, 70).map(str), min_size=1, max_size=4)


@given(
    st.sampled_from([family.family for family in descriptions()]), PARAMETERS, st.text(",:x+-^", min_size=3, max_size=3)
)
@settings(derandomize=True, deadline=None, database=None, max_examples=examples(300))
def test_any_numbers_are_a_name_or_refused(family: str, numbers: list[str], separators: str) -> None:
    parameters = "".join(number + separator for number, separator in zip(numbers, [*separators, ""], strict=False))
    try:
        topology = parse_topology(f"{family}:{parameters}")
    except ScenarioError:
        return
    assert parse_topology(topology.name).name == topology.name

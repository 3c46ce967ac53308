"""Malformed names and labels: each is refused by a ScenarioError that shows the allowed form."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.errors import ScenarioError
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.registry import parse_topology

BAD_NAMES = [
    ("", "star:N"),
    ("star", "star:5"),
    ("star:", "star:N"),
    ("star:x", "star:N"),
    ("star:-3", "star:N"),
    ("star:4.0", "star:N"),
    ("star: 4", "star:N"),
    ("star:\u0664", "star:N"),
    ("star:4^2", "star:N"),
    ("star:2", "n >= 3"),
    ("star:0", "n >= 3"),
    ("star:21", "at most 20"),
    ("star:999999999", "at most 20"),
    ("star:" + "9" * 10_000, "star:N"),
    ("stra:5", "did you mean star:5"),
    ("hypercub:5", "did you mean hypercube:5"),
    ("torus:5", "known are"),
    ("hypercube:1", "n >= 2"),
    ("hypercube:63", "at most 62"),
    ("hypercube:999999999", "at most 62"),
    ("hypercube:two", "hypercube:N"),
    ("ej:", "ej:A+B"),
    ("ej:3", "ej:A+B"),
    ("ej:3+4+5", "ej:A+B"),
    ("ej:3+4^", "ej:A+B"),
    ("ej:3+4rho", "ej:A+B"),
    ("ej:-3+4", "ej:A+B"),
    ("ej:4+3", "ej:3+4 is the same network"),
    ("ej:0+1", "below 7"),
    ("ej:1+1", "below 7"),
    ("ej:0+2", "below 7"),
    ("ej:3+4^0", "1..22"),
    ("ej:1+2^23", "1..22"),
    ("ej:3+4^999999999", "1..22"),
    ("ej:3+4^13", "can be addressed"),
    ("ej:9999999999+9999999999", "can be addressed"),
]


@pytest.mark.parametrize(("text", "allowed"), BAD_NAMES, ids=[name[:20] for name, _ in BAD_NAMES])
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


BAD_LABELS = [
    ("star:4", "", "a permutation of 1..4 such as 3142"),
    ("star:4", "314", "a permutation of 1..4 such as 3142"),
    ("star:4", "31425", "a permutation of 1..4 such as 3142"),
    ("star:4", "3144", "a permutation of 1..4 such as 3142"),
    ("star:4", "0123", "a permutation of 1..4 such as 3142"),
    ("star:4", "3.1.4.2", "a permutation of 1..4 such as 3142"),
    ("star:4", " 3142", "a permutation of 1..4 such as 3142"),
    ("star:4", "3\u066142", "a permutation of 1..4 such as 3142"),
    ("star:3", "3142", "a permutation of 1..3 such as 312"),
    ("star:10", "31425678910", "separated by dots such as 3.1.4.2.5.6.7.8.9.10"),
    ("star:10", "3.1.4.2.5.6.7.8.9", "separated by dots"),
    ("star:10", "03.1.4.2.5.6.7.8.9.10", "separated by dots"),
    ("hypercube:4", "", "4 binary digits, bit 3 first, such as 0001"),
    ("hypercube:4", "011", "4 binary digits"),
    ("hypercube:4", "01102", "4 binary digits"),
    ("hypercube:4", "0120", "4 binary digits"),
    ("hypercube:4", "0b10", "4 binary digits"),
    ("hypercube:4", "-001", "4 binary digits"),
    ("hypercube:4", "1_00", "4 binary digits"),
    ("ej:3+4", "", "x,y for x + y rho"),
    ("ej:3+4", "1", "x,y for x + y rho"),
    ("ej:3+4", "1,-2,0", "x,y for x + y rho"),
    ("ej:3+4", "1, -2", "x,y for x + y rho"),
    ("ej:3+4", "+1,-2", "x,y for x + y rho"),
    ("ej:3+4", "-0,1", "x,y for x + y rho"),
    ("ej:3+4", "01,1", "x,y for x + y rho"),
    ("ej:3+4", "1,0/0,1", "x,y for x + y rho"),
    ("ej:3+4", "4,0", "is called -3,3"),
    ("ej:3+4", "3,4", "is called 0,0"),
    ("ej:3+4^2", "1,0", "2 pairs x,y"),
    ("ej:3+4^2", "1,0/", "2 pairs x,y"),
    ("ej:3+4^2", "1,0/0,1/0,0", "2 pairs x,y"),
    ("ej:3+4^2", "1,-2/4,0", "is called 1,-2/-3,3"),
    ("ej:3+4", "1" * 10_000 + ",0", "x,y for x + y rho"),
]


@pytest.mark.parametrize(("name", "label", "allowed"), BAD_LABELS, ids=[f"{n}-{t[:20]}" for n, t, _ in BAD_LABELS])
def test_bad_label_is_refused(name: str, label: str, allowed: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_topology(name).rank(label)
    assert caught.value.field == "label"
    assert caught.value.value == label
    assert allowed in caught.value.allowed


@given(st.sampled_from(["star:4", "star:10", "hypercube:4", "ej:3+4", "ej:2+4^2"]), st.text(max_size=12))
@settings(derandomize=True, deadline=None, database=None)
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

"""Malformed names and labels: each is refused by a ScenarioError that shows the allowed form."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.errors import ScenarioError
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.registry import descriptions, parse_topology

BAD_NAMES = [
    ("", "star"),
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
    ("lattice:5", "known are star, hypercube, ej, "),
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
    ("pancake:2", "n >= 3"),
    ("pancake:21", "at most 20"),
    ("pancake:x", "pancake:N"),
    ("burnt-pancake:1", "n >= 2"),
    ("burnt-pancake:17", "at most 16"),
    ("bubble-sort:2", "n >= 3"),
    ("modified-bubble-sort:2", "adjacent anyway"),
    ("transposition:21", "at most 20"),
    ("transposition-tree:1-2", "n >= 3"),
    ("transposition-tree:1-2,2", "transposition-tree:I-J"),
    ("transposition-tree:1-2,2-3,1-3", "closes a cycle"),
    ("transposition-tree:1-2,3-2", "I < J"),
    ("transposition-tree:1-2,2-9", "positions 1..3"),
    ("alternating-graph:2", "n >= 3"),
    ("alternating-network:21", "at most 20"),
    ("nk-star:5", "nk-star:N,K"),
    ("nk-star:5,5", "k is 1 .. n-1"),
    ("nk-star:5,0", "k is 1 .. n-1"),
    ("nk-star:2,1", "single link"),
    ("arrangement:40,30", "can be addressed"),
    ("arrangement:1000,900", "more than 63 positions"),
    ("ring:2", "parallel links"),
    ("torus:4x1", "at least 2"),
    ("torus:4x", "torus:AxBx.."),
    ("torus:99999999999x99999999999", "can be addressed"),
    ("hamming:1x4", "at least 2"),
    ("complete:2", "n >= 3"),
    ("mesh:1x4", "at least 2"),
    ("mesh:99999999999x99999999999", "can be addressed"),
    ("circulant:16", "circulant:N:S1"),
    ("circulant:2:1", "N >= 3"),
    ("circulant:16:5,1", "ascending: circulant:16:1,5"),
    ("circulant:16:0,1", "a loop"),
    ("circulant:16:1,9", "1 .. N/2 = 8"),
    ("circulant:16:2,4", "2 divides N and every jump"),
    ("gaussian:4+3", "gaussian:3+4 is the same network"),
    ("gaussian:1+1", "below 5"),
    ("gaussian:0+2", "below 5"),
    ("gaussian:1+2^28", "1..27"),
    ("gaussian:3", "gaussian:A+B"),
    ("twisted-torus:8x4", "twisted-torus:AxB:T"),
    ("twisted-torus:2x4:0", "at least 3"),
    ("twisted-torus:8x4:8", "0 .. 7"),
    ("xor:3:1,2", "span 2 of 3"),
    ("xor:3:1,2,3", "span 2 of 3"),
    ("xor:2:1,2,2", "parallel links"),
    ("xor:2:1,4", "from 1 to 2^2 - 1"),
    ("xor:2:1,0,2", "from 1 to 2^2 - 1"),
    ("xor:63:1", "at most 62"),
    ("xor:3", "xor:N:W1"),
    ("folded-hypercube:1", "n >= 2"),
    ("augmented-cube:63", "at most 62"),
    ("balanced-hypercube:0", "n >= 1"),
    ("balanced-hypercube:32", "at most 31"),
    ("ccc:2", "n >= 3"),
    ("butterfly:58", "at most 57"),
    ("crossed-cube:1", "n >= 2"),
    ("locally-twisted-cube:63", "at most 62"),
    ("moebius-cube:5", "moebius-cube:N,TYPE"),
    ("moebius-cube:5,2", "0 or 1"),
    ("twisted-cube:4", "n must be odd"),
    ("debruijn:1,4", "d >= 2"),
    ("debruijn:2,1", "n >= 2"),
    ("debruijn:2,63", "can be addressed"),
    ("kautz:2,64", "more than 63 letters"),
    ("petersen:2,1", "parallel links"),
    ("petersen:8,4", "below n/2"),
    ("petersen:8,0", "loops"),
    ("hyper-petersen:2", "n >= 3"),
    ("hyper-petersen:63", "at most 62"),
    ("dragonfly:1,3", "at least 2 routers"),
    ("dragonfly:4,0", "at least 1 global link"),
    ("dragonfly:9999999,9999999", "can be addressed"),
    ("slimfly:9", "3 divides 9"),
    ("slimfly:2", "3 .. 9973"),
    ("slimfly:8", "odd prime"),
    ("jellyfish:9,3,1", "N R must be even"),
    ("jellyfish:8,1,1", "not connected"),
    ("jellyfish:8,8,1", "below N"),
    ("jellyfish:5000,4,1", "at most 4096 nodes"),
    ("jellyfish:4096,64,1", "at most 65536 links"),
    ("jellyfish:8,3,18446744073709551616", "below 2^64"),
    ("fat-tree:3", "k must be even"),
    ("fat-tree:0", "k >= 2"),
    ("fat-tree:4000000", "above 3300000"),
]


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
    ("burnt-pancake:3", "1,2", "a permutation of 1..3 with signs, such as -2,1,3"),
    ("burnt-pancake:3", "1,--2,3", "with signs"),
    ("alternating-graph:4", "2134", "an even permutation"),
    ("nk-star:5,3", "122", "3 different numbers of 1..5, such as 543"),
    ("nk-star:12,2", "1.02", "separated by dots"),
    ("torus:4x4", "1", "numbers below the sizes"),
    ("torus:4x4", "1,4", "is called 1,0"),
    ("torus:4x4", "1,x", "numbers below the sizes"),
    ("ring:8", "8", "is called 0"),
    ("mesh:4x4", "1,4", "numbers below the sizes"),
    ("mesh:4x4", "1,03", "numbers below the sizes"),
    ("mesh:4x4", "1,2,3", "numbers below the sizes"),
    ("mesh:4x4", "1", "numbers below the sizes"),
    ("gaussian:3+4", "5,0", "is called"),
    ("gaussian:3+4^2", "1,0", "2 pairs x,y for x + y i"),
    ("twisted-torus:5x3:2", "3,0", "is called 0,2"),
    ("twisted-torus:5x3:2", "3", "row,column"),
    ("balanced-hypercube:2", "14", "2 digits of 0..3"),
    ("ccc:3", "010/3", "a position below 3"),
    ("ccc:3", "01/2", "3 binary digits"),
    ("crossed-cube:4", "011", "4 binary digits"),
    ("debruijn:2,3", "012", "3 numbers of 0..1"),
    ("kautz:2,3", "011", "neighbours different"),
    ("petersen:5,2", "o5", "a number below 5"),
    ("hyper-petersen:4", "o1", "1 bits and o0..o4"),
    ("hyper-petersen:4", "2/o1", "1 bits and o0..o4"),
    ("dragonfly:4,2", "9/0", "a group below 9"),
    ("slimfly:5", "2,0,0", "two numbers below 5"),
    ("slimfly:5", "0,5,0", "two numbers below 5"),
    ("jellyfish:10,3,0", "10", "a number below 10"),
    ("fat-tree:4", "e4/0", "hP/E/I"),
    ("fat-tree:4", "h0/0", "hP/E/I"),
    ("fat-tree:4", "a0/0/0", "hP/E/I"),
]


@pytest.mark.parametrize(("name", "label", "allowed"), BAD_LABELS, ids=[f"{n}-{t[:20]}" for n, t, _ in BAD_LABELS])
def test_bad_label_is_refused(name: str, label: str, allowed: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_topology(name).rank(label)
    assert caught.value.field == "label"
    assert caught.value.value == label
    assert allowed in caught.value.allowed


@given(st.sampled_from([family.example for family in descriptions()]), st.text("0123456789abceghio,./-", max_size=12))
@settings(derandomize=True, deadline=None, database=None, max_examples=2000)
def test_any_likely_text_is_a_label_or_refused(name: str, text: str) -> None:
    topology = parse_topology(name)
    try:
        rank = topology.rank(text)
    except ScenarioError:
        return
    assert topology.label(rank) == text


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


PARAMETERS = st.lists(st.integers(0, 70).map(str), min_size=1, max_size=4)


@given(
    st.sampled_from([family.family for family in descriptions()]), PARAMETERS, st.text(",:x+-^", min_size=3, max_size=3)
)
@settings(derandomize=True, deadline=None, database=None, max_examples=2000)
def test_any_numbers_are_a_name_or_refused(family: str, numbers: list[str], separators: str) -> None:
    parameters = "".join(number + separator for number, separator in zip(numbers, [*separators, ""], strict=False))
    try:
        topology = parse_topology(f"{family}:{parameters}")
    except ScenarioError:
        return
    assert parse_topology(topology.name).name == topology.name

"""Targets of a unicast: the farthest node, and permutations by name, by file and as text."""

from pathlib import Path

import pytest

from coordinator.scenario.traffic_patterns import NAMES, described, is_file, targets_of
from emunode.errors import ScenarioError
from emunode.topologies.registry import parse_topology

RING = parse_topology("ring:16")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reversal", (15, 14, 13)),
        ("shift", (1, 2, 3)),
        ("shift:5", (5, 6, 7)),
        ("tornado", (7, 8, 9)),
        ("transpose", (0, 4, 8)),
        ("bit-complement", (15, 14, 13)),
        ("bit-reversal", (0, 8, 4)),
        ("shuffle", (0, 2, 4)),
    ],
)
def test_named_permutations(name: str, expected: tuple[int, ...]) -> None:
    targets = targets_of(name, RING, 0)
    assert targets[:3] == expected
    assert sorted(targets) == list(range(16))


def test_random_permutation_is_that_of_the_seed() -> None:
    first, second = targets_of("random", RING, 1), targets_of("random", RING, 2)
    assert first == targets_of("random", RING, 1) != second
    assert sorted(first) == sorted(second) == list(range(16))


def test_switches_keep_their_places() -> None:
    tree = parse_topology("fat-tree:4")
    targets = targets_of("reversal", tree, 0)
    assert [rank for rank in tree.ranks() if tree.is_switch(rank) and targets[rank] != rank] == []
    assert targets[tree.data_ranks[0]] == tree.data_ranks[-1]


@pytest.mark.parametrize("name", NAMES)
def test_text_of_a_permutation_is_read_again(name: str) -> None:
    assert not is_file(name)
    # The first name of a network whose order suits all names; labels of the others have commas and dots.
    for network in ("ring:16", "ej:3+4", "torus:3x4") if name in ("reversal", "shift", "random") else ("ring:16",):
        topology = parse_topology(network)
        targets = targets_of(name, topology, 3)
        assert targets_of(described(topology, targets), topology, 0) == targets


def test_file_with_quoted_labels(tmp_path: Path) -> None:
    network, path = parse_topology("ej:3+4"), tmp_path / "pairs.csv"
    one, other = network.label(5), network.label(9)
    path.write_text(f'source,target\n"{one}","{other}"\n\n"{other}","{one}"\n')
    assert is_file(str(path))
    targets = targets_of(str(path), network, 0)
    assert (targets[5], targets[9], targets[0]) == (9, 5, 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("transpose", "it needs a square number of nodes; star:4 has 24"),
        ("shuffle:2", "only shift has a parameter"),
        ("shift:x", "only shift has a parameter"),
        ("shift:24", "every node is its own target"),
        ("1234>2134;3214>2134", "at most"),
        ("1234>2134>3214", "write two labels"),
        ("1234>9999", "write two labels|permutation|expected|symbols"),
        ("nowhere.csv", "neither one of reversal, shift"),
    ],
)
def test_what_is_no_permutation_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason) as caught:
        targets_of(text, parse_topology("star:4"), 0)
    assert caught.value.field == "permutation"

"""Targets of a unicast: the permutations of permutation traffic.

A permutation is named, or given by a CSV file with a source and a target label in each row, or as the text `A>B;C>D`. Names
are rules on the places 0..N-1 of the nodes that own data, in order of rank. A node that is its own target sends nothing.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from math import isqrt
from pathlib import Path
from random import Random
from typing import Final

from coordinator.history.stored.reading import read_text
from emunode.errors import ScenarioError
from emunode.model import Rank
from emunode.topologies.base import Topology

TargetRule = Callable[[int, int, int], int]
"""(place, number of places, parameter) -> place of the target."""
MOST_FILE_BYTES = 2**25


def _transpose(place: int, count: int, _parameter: int) -> int:
    side = isqrt(count)
    row, column = divmod(place, side)
    return column * side + row


def _bit_reversal(place: int, count: int, _parameter: int) -> int:
    bits = count.bit_length() - 1
    return int(f"{place:0{bits}b}"[::-1], 2)


def _shuffle(place: int, count: int, _parameter: int) -> int:
    # The cards of two halves by turns: i -> 2i mod N-1, and the last stays the last.
    return place if place == count - 1 else 2 * place % (count - 1)


RULES: Final[Mapping[str, TargetRule]] = {
    "reversal": lambda place, count, _: count - 1 - place,
    "shift": lambda place, count, distance: (place + distance) % count,
    "tornado": lambda place, count, _: (place + (count - 1) // 2) % count,
    "transpose": _transpose,
    "bit-complement": lambda place, count, _: place ^ (count - 1),
    "bit-reversal": _bit_reversal,
    "shuffle": _shuffle,
}
"""The permutations with a rule; `shift` has a parameter. `random` is drawn with the seed of the scenario."""
NEEDS: Final[Mapping[str, tuple[str, Callable[[int], bool]]]] = {
    "transpose": ("a square number of nodes", lambda count: isqrt(count) ** 2 == count),
    "bit-complement": ("a power of two as the number of nodes", lambda count: count.bit_count() == 1),
    "bit-reversal": ("a power of two as the number of nodes", lambda count: count.bit_count() == 1),
    "shuffle": ("an even number of nodes", lambda count: count % 2 == 0),
}
NAMES: Final = (*RULES, "random")


def is_file(permutation: str | None) -> bool:
    """Return whether a permutation is given by the path of a file."""
    return permutation is not None and ">" not in permutation and permutation.partition(":")[0] not in NAMES


def targets_of(permutation: str, topology: Topology, seed: int) -> tuple[Rank, ...]:
    """Return for each rank the target of its message; ScenarioError (field `permutation`) for an invalid permutation."""
    name, _, parameter = permutation.partition(":")
    if ">" in permutation:
        pairs = [tuple(pair.split(">")) for pair in permutation.split(";")]
    elif name in NAMES:
        pairs = []
        targets = _named(permutation, name, parameter, topology, seed)
    else:
        pairs = _read(permutation)
    if pairs:
        targets = _listed(pairs, topology)
    if all(rank == target for rank, target in enumerate(targets)):
        raise ScenarioError("permutation", permutation[:80], "every node is its own target, so nothing would be sent")
    return targets


def described(topology: Topology, targets: Iterable[Rank]) -> str:
    """Write a permutation as text that `targets_of` reads."""
    moved = ((rank, target) for rank, target in enumerate(targets) if rank != target)
    return ";".join(f"{topology.label(rank)}>{topology.label(target)}" for rank, target in moved)


def _named(permutation: str, name: str, parameter: str, topology: Topology, seed: int) -> tuple[Rank, ...]:
    places, count = topology.data_ranks, len(topology.data_ranks)
    if parameter and (name != "shift" or not (parameter.isascii() and parameter.isdigit() and len(parameter) < 10)):
        raise ScenarioError("permutation", permutation, "only shift has a parameter, a whole number: shift:3")
    need, suits = NEEDS.get(name, ("", bool))
    if not suits(count):
        raise ScenarioError("permutation", permutation, f"it needs {need}; {topology.name} has {count}")
    if name == "random":
        moved = list(range(count))
        Random(f"permutation/{seed}").shuffle(moved)
    else:
        moved = [RULES[name](place, count, int(parameter or 1)) for place in range(count)]
    targets = list(topology.ranks())
    for place, goal in enumerate(moved):
        targets[places[place]] = places[goal]
    return tuple(targets)


def _read(permutation: str) -> list[tuple[str, ...]]:
    """Return the rows of a file, without empty ones and without a header `source,target`."""
    path = Path(permutation)
    try:
        lines = io.StringIO(read_text(path, MOST_FILE_BYTES), newline="")
        rows = [tuple(word.strip() for word in row) for row in csv.reader(lines) if row]
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        known = ", ".join(NAMES)
        raise ScenarioError(
            "permutation", permutation[:80], f"neither one of {known} nor a CSV file that can be read: {reason}"
        ) from None
    if rows and rows[0] == ("source", "target"):
        del rows[0]
    if not rows:
        raise ScenarioError(
            "permutation", permutation, "the file has no rows; write a source and a target label in each"
        )
    return rows


def _listed(pairs: Iterable[tuple[str, ...]], topology: Topology) -> tuple[Rank, ...]:
    targets, senders, receivers = list(topology.ranks()), set[Rank](), set[Rank]()
    for pair in pairs:
        text = ",".join(pair)[:80]
        if len(pair) != 2:
            raise ScenarioError("permutation", text, "write two labels, of the source and of the target; quote commas")
        try:
            source, target = map(topology.rank, pair)
        except ScenarioError as error:
            raise ScenarioError("permutation", text, error.allowed) from None
        if topology.is_switch(source) or topology.is_switch(target):
            raise ScenarioError("permutation", text, "a switch owns no data; name other nodes")
        if source in senders or target in receivers:
            raise ScenarioError(
                "permutation", text, "each node is the source of one message and the target of one, at most"
            )
        senders.add(source)
        receivers.add(target)
        targets[source] = target
    # A node that is not listed as a source remains its own target, so it sends nothing.
    return tuple(targets)

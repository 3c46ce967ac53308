"""The copies that byzantine nodes send, for the exact evaluator: one function per kind of fault.

Payloads are not computed: of a copy only that is kept which decides a vote. To add a kind, write a function that changes the
`Values` of the hops that its nodes send, and put it into `FORGERS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from emunode.faults.byzantine import Byzantine, Equivocate
from emunode.faults.kinds import Fault

if TYPE_CHECKING:  # `coordinator plan` needs the kinds without numpy
    from coordinator.dependence.bit_rows import Bits, Indices


@dataclass
class Values:
    """The copies that cross some hops of one step, one row per hop; all rows may be changed in place.

    A copy is right, or holds the forgery that all byzantine nodes have in common, or a value of its own.
    """

    hops: "Indices"
    """The numbers of the hops in the schedule."""
    sent: "Bits"
    """The trials in which the hop takes place at all; a node that keeps a copy back clears its bits."""
    wrong: "Bits"
    apart: "Bits"
    """Of wrong copies: those with a value of their own; the others have the common forgery."""


Forger = Callable[[Values, "Bits"], None]
"""Changes what is sent, in the trials in which the sender of each hop is byzantine (second argument, one row per hop)."""


def forge_in_common(values: Values, active: "Bits") -> None:
    """Every byzantine node sends the same forgery (see `forge_segment`)."""
    values.wrong |= active
    values.apart &= ~active


def forge_apart(values: Values, active: "Bits") -> None:
    """Every byzantine node sends other values to each neighbour and on each tree (see `forge_apart` of the packets)."""
    values.wrong |= active
    values.apart |= active


FORGERS: Final[Mapping[type[Fault], Forger]] = {Byzantine: forge_in_common, Equivocate: forge_apart}
"""Kinds of faults that alter what a node sends, each with what it sends."""

"""A plug-in: a family of networks. `own_network.py` runs broadcasts on it.

coordinator graph prefix-cycles:4 --plugin prefix_cycles.py
"""

from emunode.registry import register
from emunode.topologies.permutation_groups import PermutationNetwork


@register
class PrefixCycles(PermutationNetwork):
    """Permutations of 1..n; every link rotates the first k symbols by one place, to the left or to the right."""

    family = "prefix-cycles"
    form = "prefix-cycles:N"
    condition = "3 <= N <= 20"
    example = "prefix-cycles:4"
    describe = "prefix cycles: N! nodes, degree 2N-3; a link rotates the first symbols of a permutation by one place"
    small_examples = ("prefix-cycles:3", "prefix-cycles:4")
    title_form = "prefix cycles of {} symbols"

    @classmethod
    def moves_of(cls, n: int) -> list[bytes]:
        moves = []
        for size in range(2, n + 1):
            first, rest = list(range(1, size + 1)), list(range(size + 1, n + 1))
            moves.append(bytes([*first[1:], first[0], *rest]))
            if size > 2:  # two symbols: left and right are the same
                moves.append(bytes([first[-1], *first[:-1], *rest]))
        return moves

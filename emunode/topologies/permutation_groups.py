"""Networks of permutations: a family is a list of moves, and every move rearranges the positions of a permutation.

Nodes are the permutations x_1 x_2 .. x_n of a group: all of them, the even ones, or the signed ones. A move g leads from
x to y with y_i = x_{g_i}. The translation relabels symbols instead: seen from r, every symbol becomes its position in r.
Moves and relabellings act on different sides, so translations keep moves, that is, ports. In other words: Cayley graphs.

Both are `bytes.translate` on a table of 256 entries: a move g of x is g itself with every position replaced by the symbol
there. The star graph is the network of the moves that exchange position 1 with another one; it has a module of its own.

References: Akers and Krishnamurthy 1989 (Cayley graphs as networks; pancake, bubble-sort, transposition trees); Gates and
Papadimitriou 1979 (burnt pancakes); Lakshmivarahan, Jwo and Dhall 1993 (modified bubble-sort, all transpositions); Jwo,
Lakshmivarahan and Dhall 1993 (alternating group graphs); Ji 1998, Chen, Xiao and Parhami 2006 (alternating group networks).
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import ClassVar, Final, Protocol, Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import CACHE_ENTRIES, MAX_ORDER, CayleyTopology
from emunode.topologies.partial_permutations import arrangement_weight, nk_star_weight
from emunode.topologies.permutations import LARGEST_N, Permutations, cycle_through
from emunode.topologies.polynomials import polynomial_product

LARGEST_SIGNED_N: Final = 16
"""2^16 16! is the last order of a group of signed permutations below 2^63."""
PANCAKE_DIAMETERS: Final = (3, 4, 5, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 22)
"""Of 3..19 pancakes, as they are known."""
BURNT_PANCAKE_DIAMETERS: Final = (4, 6, 8, 10, 12, 14, 15, 17, 18, 19, 21)
"""Of 2..12 burnt pancakes, as they are known."""


def inversions(rank: Rank, n: int) -> int:
    """Return the number of pairs in wrong order in the permutation of a rank: the sum of the digits of the rank.

    Raises ValueError if there is no such rank.
    """
    total, remaining = 0, rank
    for radix in range(2, n + 1):
        remaining, digit = divmod(remaining, radix)
        total += digit
    if remaining:
        raise ValueError(f"no permutation of {n} symbols has rank {rank}")
    return total


class Group(Protocol):
    """A group of permutations by rank, as `Permutations` has it; rank 0 is the identity."""

    order: int

    def unrank(self, rank: Rank, /) -> bytes: ...
    def rank(self, symbols: bytes, /) -> Rank: ...

    def relabelling(self, rank: Rank, /) -> bytes:
        """Return a table for `bytes.translate` that replaces every position by the symbol there."""

    def inverse_relabelling(self, rank: Rank, /) -> bytes:
        """Return a table for `bytes.translate` that replaces every symbol by its position."""

    def label(self, rank: Rank, /) -> str: ...
    def parse_label(self, label: str, /) -> Rank: ...


class EvenPermutations:
    """The n!/2 even permutations of 1..n: rank r is the even one of the permutations of rank 2r and 2r + 1.

    These two differ by an exchange of positions 1 and 2, so one of them is even.
    """

    def __init__(self, n: int, network: str) -> None:
        self._all = Permutations(n, network)
        self.order = self._all.order // 2
        self.unrank: Callable[[Rank], bytes] = lru_cache(CACHE_ENTRIES)(self._unrank)

    def _place(self, rank: Rank) -> Rank:
        """Return the rank among all permutations."""
        place = 2 * rank
        return place + inversions(place, self._all.n) % 2

    def _unrank(self, rank: Rank) -> bytes:
        return self._all.unrank(self._place(rank))

    def rank(self, symbols: bytes) -> Rank:
        return self._all.rank(symbols) // 2

    def relabelling(self, rank: Rank) -> bytes:
        return self._all.relabelling(self._place(rank))

    def inverse_relabelling(self, rank: Rank) -> bytes:
        return self._all.inverse_relabelling(self._place(rank))

    def label(self, rank: Rank) -> str:
        return self._all.label(self._place(rank))

    def parse_label(self, label: str) -> Rank:
        place = self._all.parse_label(label)
        if self._place(place // 2) != place:
            raise ScenarioError("label", label, f"a node of {self._all.network} is an even permutation")
        return place // 2


class SignedPermutations:
    """The 2^n n! signed permutations of 1..n: rank = rank of the absolute values times 2^n + a bit for every minus sign.

    In the symbols a number -s is written n + s, and a table maps both s and n + s.
    """

    def __init__(self, n: int, network: str) -> None:
        self.n = n
        self.network = network
        self._absolute = Permutations(n, network)
        self.order = self._absolute.order << n
        positive, negative = bytes(range(1, n + 1)), bytes(range(n + 1, 2 * n + 1))
        self._all = positive + negative
        self._without_sign = bytes.maketrans(negative, positive)
        self._negated = bytes.maketrans(self._all, negative + positive)
        self.unrank: Callable[[Rank], bytes] = lru_cache(CACHE_ENTRIES)(self._unrank)
        self.relabelling: Callable[[Rank], bytes] = lru_cache(CACHE_ENTRIES)(self._relabelling)
        self.inverse_relabelling: Callable[[Rank], bytes] = lru_cache(CACHE_ENTRIES)(self._inverse_relabelling)

    def _unrank(self, rank: Rank) -> bytes:
        symbols = self._absolute.unrank(rank >> self.n)
        return bytes([symbol + self.n * (rank >> place & 1) for place, symbol in enumerate(symbols)])

    def rank(self, symbols: bytes) -> Rank:
        signs = sum(1 << place for place, symbol in enumerate(symbols) if symbol > self.n)
        return self._absolute.rank(symbols.translate(self._without_sign)) << self.n | signs

    def _relabelling(self, rank: Rank) -> bytes:
        symbols = self.unrank(rank)
        return bytes.maketrans(self._all, symbols + symbols.translate(self._negated))

    def _inverse_relabelling(self, rank: Rank) -> bytes:
        symbols = self.unrank(rank)
        return bytes.maketrans(symbols + symbols.translate(self._negated), self._all)

    def label(self, rank: Rank) -> str:
        """Return the numbers with their signs, separated by commas."""
        return ",".join(str(symbol if symbol <= self.n else self.n - symbol) for symbol in self.unrank(rank))

    def parse_label(self, label: str) -> Rank:
        words = label.split(",")
        absolute = [word.removeprefix("-") for word in words]
        if sorted(absolute) != sorted(map(str, range(1, self.n + 1))):
            sample = ",".join(["-2", "1", *map(str, range(3, self.n + 1))])
            raise ScenarioError(
                "label", label, f"a node of {self.network} is a permutation of 1..{self.n} with signs, such as {sample}"
            )
        signs = [self.n * word.startswith("-") for word in words]
        return self.rank(bytes([int(word) + sign for word, sign in zip(absolute, signs, strict=True)]))


class PermutationNetwork(CayleyTopology):
    """The Cayley graph of a group of permutations for a list of moves."""

    group: ClassVar[type[Permutations | EvenPermutations | SignedPermutations]] = Permutations
    least_n: ClassVar[int] = 3
    largest_n: ClassVar[int] = LARGEST_N
    below: ClassVar[str] = "with fewer symbols there is no cycle"
    """Why n is not smaller, for messages."""
    title_form: ClassVar[str]
    """`title` with n in the place of {}."""

    def __init__(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) if n is too small, or if there are too many ranks to be addressed."""
        self.name = f"{self.family}:{n}"
        self.check_symbols(n)
        self.set_moves(n, self.moves_of(n))

    def check_symbols(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) unless the group of n symbols makes a network."""
        self.require(n >= self.least_n, f"{self.family} needs n >= {self.least_n}: {self.below}")
        self.require(
            n <= self.largest_n, f"the number of nodes must not exceed {MAX_ORDER}, so n is at most {self.largest_n}"
        )

    def set_moves(self, n: int, moves: Sequence[bytes]) -> None:
        """Make the network of `moves`, in the order of the ports."""
        self.n = n
        self.title = self.title_form.format(n)
        permutations: Group = self.group(n, self.name)
        self.order = permutations.order
        self.degree = len(moves)
        self.connectivity = self.degree
        self.moves = tuple(moves)
        self.permutation = permutations.unrank
        """The symbols of a rank."""
        self.rank_of = permutations.rank
        """The rank of symbols."""
        self._permutations = permutations
        ports = {move: port for port, move in enumerate(moves)}
        identity = permutations.unrank(0)
        inverses = [identity.translate(permutations.inverse_relabelling(self.rank_of(move))) for move in moves]
        self._reverse = tuple(ports[move] for move in inverses)

    @classmethod
    def moves_of(cls, n: int) -> list[bytes]:
        """Return the moves by port: the symbol at position i comes from position move[i]; positions count from 1."""
        raise NotImplementedError

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def label(self, rank: Rank) -> str:
        return self._permutations.label(rank)

    def rank(self, label: str) -> Rank:
        return self._permutations.parse_label(label)

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        return self.rank_of(self.moves[port].translate(self._permutations.relabelling(rank)))

    def neighbours(self, rank: Rank) -> tuple[Rank, ...]:
        table, rank_of = self._permutations.relabelling(rank), self.rank_of
        return tuple([rank_of(move.translate(table)) for move in self.moves])

    def reverse_port(self, port: Port) -> Port:
        """Return the port of the inverse move."""
        return self._reverse[port]

    def relative(self, rank: Rank, root: Rank) -> Rank:
        """Return the permutation with every symbol replaced by its position in the root's permutation."""
        if not root:
            return rank
        return self.rank_of(self.permutation(rank).translate(self._permutations.inverse_relabelling(root)))

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """Return the permutation with every symbol s replaced by the symbol at position s of the root's permutation."""
        if not root:
            return relative
        return self.rank_of(self.permutation(relative).translate(self._permutations.relabelling(root)))


def swap(n: int, one: int, other: int) -> bytes:
    """Return the move of n positions that exchanges two of them."""
    positions = bytearray(range(1, n + 1))
    positions[one - 1], positions[other - 1] = other, one
    return bytes(positions)


@register
class Pancake(PermutationNetwork):
    """P_n: port p reverses the first p + 2 symbols. Distances are searched: to find them is NP-hard in general.

    >>> network = Pancake.parse("4")
    >>> network.order, network.degree, network.diameter
    (24, 3, 4)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1342"))]
    ['3142', '4312', '2431']
    """

    family = "pancake"
    form = "pancake:N"
    condition = f"3 <= N <= {LARGEST_N}"
    example = "pancake:4"
    describe = "pancake graph P_N: N! nodes, degree N-1; a link reverses the first symbols"
    small_examples = ("pancake:3", "pancake:4")
    title_form = "pancake graph P_{}"

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.bipartite = n == 3
        if n - 3 < len(PANCAKE_DIAMETERS):
            self.diameter = PANCAKE_DIAMETERS[n - 3]

    @classmethod
    def moves_of(cls, n: int) -> list[bytes]:
        return [bytes([*range(first, 0, -1), *range(first + 1, n + 1)]) for first in range(2, n + 1)]


@register
class BurntPancake(PermutationNetwork):
    """BP_n: port p reverses the first p + 1 signed symbols and changes their signs. Distances are searched.

    >>> network = BurntPancake.parse("3")
    >>> network.order, network.degree, network.diameter
    (48, 3, 6)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("3,1,2"))]
    ['-3,1,2', '-1,-3,2', '-2,-1,-3']
    """

    family = "burnt-pancake"
    form = "burnt-pancake:N"
    condition = f"2 <= N <= {LARGEST_SIGNED_N}"
    example = "burnt-pancake:3"
    describe = "burnt pancake graph: 2^N N! nodes, degree N; a link reverses the first signed symbols and their signs"
    small_examples = ("burnt-pancake:2", "burnt-pancake:3")
    group = SignedPermutations
    least_n = 2
    largest_n = LARGEST_SIGNED_N
    title_form = "burnt pancake graph BP_{}"

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.bipartite = n == 2
        if n - 2 < len(BURNT_PANCAKE_DIAMETERS):
            self.diameter = BURNT_PANCAKE_DIAMETERS[n - 2]

    @classmethod
    def moves_of(cls, n: int) -> list[bytes]:
        return [bytes([*range(n + first, n, -1), *range(first + 1, n + 1)]) for first in range(1, n + 1)]


@register
class BubbleSort(PermutationNetwork):
    """B_n: port p exchanges positions p + 1 and p + 2; the distance is the number of inversions.

    >>> network = BubbleSort.parse("4")
    >>> network.order, network.degree, network.diameter
    (24, 3, 6)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1342"))]
    ['3142', '1432', '1324']
    """

    family = "bubble-sort"
    form = "bubble-sort:N"
    condition = f"3 <= N <= {LARGEST_N}"
    example = "bubble-sort:4"
    describe = "bubble-sort graph B_N: N! nodes, degree N-1; a link exchanges two adjacent symbols"
    small_examples = ("bubble-sort:3", "bubble-sort:4")
    large_examples = ("bubble-sort:12", "bubble-sort:20")
    title_form = "bubble-sort graph B_{}"
    bipartite = True

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.diameter = n * (n - 1) // 2

    @classmethod
    def moves_of(cls, n: int) -> list[bytes]:
        return [swap(n, place, place + 1) for place in range(1, n)]

    def weight(self, relative: Rank) -> int:
        """Return the number of inversions."""
        return inversions(relative, self.n)

    def distance_distribution(self) -> tuple[int, ...]:
        """Return the coefficients of the product of 1 + z + .. + z^(i-1) for i = 1..n."""
        return polynomial_product([1] * i for i in range(1, self.n + 1))


@register
class ModifiedBubbleSort(PermutationNetwork):
    """MB_n: the bubble-sort graph, and port n-1 exchanges positions 1 and n. Distances are searched.

    >>> network = ModifiedBubbleSort.parse("4")
    >>> network.order, network.degree, network.diameter
    (24, 4, 4)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1342"))]
    ['3142', '1432', '1324', '2341']
    """

    family = "modified-bubble-sort"
    form = "modified-bubble-sort:N"
    condition = f"3 <= N <= {LARGEST_N}"
    example = "modified-bubble-sort:4"
    describe = "modified bubble-sort graph: N! nodes, degree N; a link exchanges two cyclically adjacent symbols"
    small_examples = ("modified-bubble-sort:3", "modified-bubble-sort:4")
    below = "the first and the last of two positions are adjacent anyway"
    title_form = "modified bubble-sort graph MB_{}"
    bipartite = True

    @classmethod
    def moves_of(cls, n: int) -> list[bytes]:
        return [*BubbleSort.moves_of(n), swap(n, 1, n)]


@register
class Transposition(PermutationNetwork):
    """T_n: every two positions i < j can be exchanged, ports by j, then by i; the distance is n - number of cycles.

    >>> network = Transposition.parse("4")
    >>> network.order, network.degree, network.diameter
    (24, 6, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1342"))]
    ['3142', '4312', '1432', '2341', '1243', '1324']
    """

    family = "transposition"
    form = "transposition:N"
    condition = f"3 <= N <= {LARGEST_N}"
    example = "transposition:4"
    describe = "complete transposition graph: N! nodes, degree N(N-1)/2; a link exchanges any two symbols"
    small_examples = ("transposition:3", "transposition:4")
    large_examples = ("transposition:9",)
    title_form = "complete transposition graph T_{}"
    bipartite = True

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.diameter = n - 1

    @classmethod
    def moves_of(cls, n: int) -> list[bytes]:
        return [swap(n, lower, upper) for upper in range(2, n + 1) for lower in range(1, upper)]

    def weight(self, relative: Rank) -> int:
        """Return n minus the number of cycles, fixed points included."""
        symbols = self.permutation(relative)
        cycles, unseen = 0, set(symbols)
        while unseen:
            unseen.difference_update(cycle_through(symbols, unseen.pop()))
            cycles += 1
        return self.n - cycles

    def distance_distribution(self) -> tuple[int, ...]:
        """Return the coefficients of the product of 1 + (i-1) z for i = 1..n."""
        return polynomial_product([1, i - 1] for i in range(2, self.n + 1))


@register
class TranspositionTree(PermutationNetwork):
    """The network of a tree on the positions 1..n: every edge of the tree is a port that exchanges its ends.

    The star graph is the network of a tree that is a star, the bubble-sort graph of a path. Trees of one shape give
    isomorphic networks with other port numbers. Distances are searched.

    >>> network = TranspositionTree.parse("1-2,2-3,2-4")
    >>> network.order, network.degree, network.diameter
    (24, 3, 4)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1342"))]
    ['3142', '1432', '1243']
    """

    family = "transposition-tree"
    form = "transposition-tree:I-J,I-J,.."
    condition = f"the edges of a tree on positions 1..N, 3 <= N <= {LARGEST_N}, with I < J"
    example = "transposition-tree:1-2,1-3"
    describe = (
        "Cayley graph of a tree of exchanges: N! nodes, degree N-1; a link exchanges two positions joined by the tree"
    )
    small_examples = ("transposition-tree:1-2,2-3", "transposition-tree:1-2,2-3,2-4")
    title_form = "transposition tree network of {} symbols"
    bipartite = True

    def __init__(self, edges: Sequence[tuple[int, int]]) -> None:
        """Raise ScenarioError (field `topology`) unless `edges` form a tree. Their order numbers the ports."""
        self.name = f"{self.family}:{','.join(f'{one}-{other}' for one, other in edges)}"
        n = len(edges) + 1
        self.check_symbols(n)
        self._require_tree(n, edges)
        self.set_moves(n, [swap(n, one, other) for one, other in edges])

    def _require_tree(self, n: int, edges: Sequence[tuple[int, int]]) -> None:
        self.require(
            all(1 <= one < other <= n for one, other in edges),
            f"{n - 1} edges make a tree of positions 1..{n}, and an edge I-J has I < J",
        )
        part = list(range(n + 1))
        for one, other in edges:
            self.require(part[one] != part[other], f"{one}-{other} closes a cycle, so the edges are not a tree")
            part = [part[one] if known == part[other] else known for known in part]

    @classmethod
    def parse(cls, parameters: str) -> Self:
        if re.fullmatch(r"[0-9]{1,9}-[0-9]{1,9}(,[0-9]{1,9}-[0-9]{1,9})*", parameters) is None:
            raise ScenarioError("topology", f"{cls.family}:{parameters}", f"write {cls.form} with {cls.condition}")
        pairs = (edge.split("-") for edge in parameters.split(","))
        return cls([(int(one), int(other)) for one, other in pairs])


@register
class AlternatingGraph(PermutationNetwork):
    """AG_n, the alternating group graph: ports 2(i-3) and 2(i-3)+1 rotate positions 1, 2 and i in either sense.

    It is isomorphic to the arrangement graph A_{n,n-2}, and has its distances from there.

    >>> network = AlternatingGraph.parse("4")
    >>> network.order, network.degree, network.diameter
    (12, 4, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1342"))]
    ['3412', '4132', '3241', '2143']
    """

    family = "alternating-graph"
    form = "alternating-graph:N"
    condition = f"3 <= N <= {LARGEST_N}"
    example = "alternating-graph:5"
    describe = (
        "alternating group graph AG_N: N!/2 nodes, degree 2(N-2); a link rotates the first two symbols and another one"
    )
    small_examples = ("alternating-graph:3", "alternating-graph:4", "alternating-graph:5")
    large_examples = ("alternating-graph:12",)
    group = EvenPermutations
    title_form = "alternating group graph AG_{}"
    bipartite = False

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.diameter = 3 * (n - 2) // 2

    @classmethod
    def moves_of(cls, n: int) -> list[bytes]:
        return [move for position in range(3, n + 1) for move in rotations(n, position)]

    def weight(self, relative: Rank) -> int:
        """Return the weight in A_{n,n-2} of the symbols from position 3 on."""
        return arrangement_weight(_from_position_3(self.permutation(relative)))


@register
class AlternatingNetwork(PermutationNetwork):
    """AN_n, the alternating group network: ports 0 and 1 rotate positions 1, 2, 3; port i-2 swaps 1, 2 and also 3, i.

    It is isomorphic to the (n,n-2)-star, and has its distances from there.

    >>> network = AlternatingNetwork.parse("4")
    >>> network.order, network.degree, network.diameter
    (12, 3, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1342"))]
    ['3412', '4132', '3124']
    """

    family = "alternating-network"
    form = "alternating-network:N"
    condition = f"3 <= N <= {LARGEST_N}"
    example = "alternating-network:5"
    describe = "alternating group network AN_N: N!/2 nodes, degree N-1; a link rotates three symbols or swaps two pairs"
    small_examples = ("alternating-network:3", "alternating-network:4", "alternating-network:5")
    large_examples = ("alternating-network:12",)
    group = EvenPermutations
    title_form = "alternating group network AN_{}"
    bipartite = False

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.diameter = n - 2 + (n - 1) // 2 if n > 3 else 1

    @classmethod
    def moves_of(cls, n: int) -> list[bytes]:
        two_swaps = [bytes([2, 1]) + swap(n, 3, position)[2:] for position in range(4, n + 1)]
        return [*rotations(n, 3), *two_swaps]

    def weight(self, relative: Rank) -> int:
        """Return the weight in the (n,n-2)-star of the symbols from position 3 on."""
        return nk_star_weight(_from_position_3(self.permutation(relative)))


def rotations(n: int, position: int) -> tuple[bytes, bytes]:
    """Return the moves that put the symbols of positions 2, i, 1 into positions 1, 2, i, and the moves of i, 1, 2."""
    between = bytes(range(3, position))
    after = bytes(range(position + 1, n + 1))
    one = bytes([2, position]) + between + bytes([1]) + after
    other = bytes([position, 1]) + between + bytes([2]) + after
    return one, other


def _from_position_3(symbols: bytes) -> list[int]:
    """Return the symbols from position 3 on, lowered by 2: symbols 1 and 2 become external."""
    return [symbol - 2 for symbol in symbols[2:]]

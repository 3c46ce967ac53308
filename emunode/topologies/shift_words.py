"""Undirected de Bruijn and Kautz graphs: words of n letters, a link shifts the word by one letter.

Ports 0 .. d-1 shift left and append a letter, ports d .. 2d-1 shift right and put a letter in front, both in the order
of the letters that may stand there. Loops are dropped. Where two ports lead to one neighbour, the higher one is absent.

Here N is the length of the words, and the diameter of the directed graph. Many papers write K(d, D) for Kautz graphs of
words of length D + 1. There is no formula for undirected distances: they are searched.

References: de Bruijn 1946; Kautz 1968; Pradhan and Reddy 1982; Esfahanian and Hakimi 1985.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import ABSENT, CACHE_ENTRIES, Topology

Word = tuple[int, ...]
"""The letters 0, 1, .. from left to right."""


class ShiftNetwork(Topology):
    """Words of length n >= 2 in lexicographic order; beside every letter d letters may stand."""

    bipartite = False  # the rotations of the word 001001.. (012012.. for Kautz graphs) are a triangle

    def __init__(self, d: int, n: int) -> None:
        """Raise ScenarioError (field `topology`) unless d and n are at least 2 and the words can be addressed."""
        self.name = f"{self.family}:{d},{n}"
        self.require(d >= 2, f"{self.family} needs d >= 2: with one letter to append there is a single cycle")
        self.require(n >= 2, f"{self.family} needs n >= 2: words of one letter are all linked, as in complete:N")
        self.require(n <= 63, "words of more than 63 letters are too many to be addressed")
        self.d, self.n = d, n
        self.letters = self.letters_for(d)
        self.order = self.letters * d ** (n - 1)
        self.require_order()
        self.degree = 2 * d
        self.diameter = n
        self.word: Callable[[Rank], Word] = lru_cache(CACHE_ENTRIES)(self._find_word)
        """The letters of a rank."""

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(*cls.parse_numbers(parameters, ",", 2))

    @staticmethod
    @abstractmethod
    def letters_for(d: int) -> int:
        """Return how many letters there are."""

    @abstractmethod
    def allowed(self, index: int, beside: int) -> int:
        """Return the letter at `index` (from 0) among the letters that may stand beside the letter `beside`."""

    @abstractmethod
    def index_of(self, letter: int, beside: int) -> int:
        """Return the inverse of `allowed`."""

    def _find_word(self, rank: Rank) -> Word:
        indices = []
        for _ in range(self.n - 1):
            rank, index = divmod(rank, self.d)
            indices.append(index)
        word = [rank]
        for index in reversed(indices):
            word.append(self.allowed(index, word[-1]))
        return tuple(word)

    def rank_of(self, word: Sequence[int]) -> Rank:
        """Return the rank of a word."""
        rank = word[0]
        for before, letter in pairwise(word):
            rank = rank * self.d + self.index_of(letter, before)
        return rank

    @property
    def _separator(self) -> str:
        return "." if self.letters > 10 else ""

    def label(self, rank: Rank) -> str:
        """Return the letters, separated by dots if there are more than ten."""
        return self._separator.join(map(str, self.word(rank)))

    def rank(self, label: str) -> Rank:
        texts = label.split(".") if self._separator else list(label)
        word = [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 20]
        possible = len(word) == len(texts) == self.n and max(word) < self.letters
        rank = self.rank_of(word) if possible else 0
        if self.label(rank) != label:
            sample = self.label(self.order - 1)
            raise ScenarioError("label", label, f"a node of {self.name} is {self.node_form()}, such as {sample}")
        return rank

    def node_form(self) -> str:
        """Return the form of a label, for messages."""
        return f"{self.n} numbers of 0..{self.letters - 1}" + (" separated by dots" if self._separator else "")

    def _shifted(self, word: Word, port: Port) -> Word:
        if port < self.d:
            return *word[1:], self.allowed(port, word[-1])
        return self.allowed(port - self.d, word[0]), *word[:-1]

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        word = self.word(rank)
        shifted = self._shifted(word, port)
        if shifted == word or (port >= self.d and shifted[:-1] == word[1:]):  # a loop; a left shift leads there too
            return ABSENT
        return self.rank_of(shifted)

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        word = self.word(rank)
        shifted = self._shifted(word, port)
        return self.rank_of(shifted), self._port_to(word, shifted)

    def ends(self, rank: Rank) -> Iterator[tuple[Port, Rank, Port]]:
        word = self.word(rank)
        for port, neighbour in self.adjacent(rank):
            yield port, neighbour, self._port_to(word, self.word(neighbour))

    def _port_to(self, word: Word, neighbour: Word) -> Port:
        """Return the port of `neighbour` that leads to `word`."""
        if neighbour[1:] == word[:-1]:  # a left shift leads there
            return self.index_of(word[-1], neighbour[-1])
        return self.d + self.index_of(word[0], neighbour[0])


@register
class DeBruijn(ShiftNetwork):
    """B(d, n): all words over d letters.

    >>> network = DeBruijn.parse("2,5")
    >>> network.order, network.degree, network.diameter
    (32, 4, 5)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("10000"))]
    ['00000', '00001', '01000', '11000']
    """

    family = "debruijn"
    form = "debruijn:D,N"
    condition = "D >= 2, N >= 2, D^N < 2^63"
    example = "debruijn:2,4"
    describe = "undirected de Bruijn graph: D^N words of N letters, degree up to 2D; a link shifts a word by one letter"
    small_examples = ("debruijn:2,3", "debruijn:3,2", "debruijn:2,5")

    def __init__(self, d: int, n: int) -> None:
        super().__init__(d, n)
        self.connectivity = 2 * d - 2
        self.title = f"undirected de Bruijn graph B({d}, {n})"

    @staticmethod
    def letters_for(d: int) -> int:
        return d

    def allowed(self, index: int, beside: int) -> int:
        return index

    def index_of(self, letter: int, beside: int) -> int:
        return letter

    @property
    def link_count(self) -> int:
        """d shifts of every word, without d loops and with d (d-1)/2 pairs of words that are shifts of each other."""
        return self.d * self.order - self.d - self.d * (self.d - 1) // 2


@register
class Kautz(ShiftNetwork):
    """K(d, n): the words over d + 1 letters whose neighbouring letters differ.

    >>> network = Kautz.parse("2,3")
    >>> network.order, network.degree, network.diameter
    (12, 4, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("120"))]
    ['201', '202', '012', '212']
    """

    family = "kautz"
    form = "kautz:D,N"
    condition = "D >= 2, N >= 2, D^N + D^(N-1) < 2^63"
    example = "kautz:2,3"
    describe = "undirected Kautz graph: words of N letters, neighbours different; degree up to 2D; a link shifts a word"
    small_examples = ("kautz:2,3", "kautz:3,2", "kautz:2,4")

    def __init__(self, d: int, n: int) -> None:
        super().__init__(d, n)
        self.connectivity = 2 * d - 1
        self.title = f"undirected Kautz graph K({d}, {n})"

    @staticmethod
    def letters_for(d: int) -> int:
        return d + 1

    def allowed(self, index: int, beside: int) -> int:
        return index + (index >= beside)

    def index_of(self, letter: int, beside: int) -> int:
        return letter - (letter > beside)

    def node_form(self) -> str:
        return super().node_form() + ", neighbours different"

    @property
    def link_count(self) -> int:
        """d shifts of every word, with d (d+1)/2 pairs of words that are shifts of each other."""
        return self.d * self.order - self.d * (self.d + 1) // 2

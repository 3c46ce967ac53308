"""The number of senders and receivers in each step of the Eisenstein-Jacobi broadcasts, counted without a run.

Everything here is arithmetic on alpha = a + b rho and the number of dimensions n: it counts a network of 13.9 billion
nodes as readily as one of 19. In one dimension, W(s) nodes are at distance s of the source (eq. (10)) and L(s) of
them have no child; D = floor((a+2b)/3), N = a^2+ab+b^2. In every step senders and receivers
are disjoint.

Source: Hussain, section 5 and tables 1 to 3. Errata:
* eq. (12) 6 d N^(r-1) holds for rounds r = 1..n, not 0..n-1;
* eq. (13) 6 (d-1) N^(r-1), "senders are the receivers of the step before", holds for d >= 2; in the first step of a
  round it
  says 0 where all N^(r-1) holders send;
* M in (20) and (21) is the integer D, and these, like (12) and (13), need b = a + 1. The generating functions do not;
* "2.7% fewer senders for all dimensions" is N = 37 and n >= 2 only: the saving is 0 for n = 1 and tends to 1/N.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.trees.eisenstein_jacobi.sectors import SectorTree


@dataclass(frozen=True)
class StepCounts:
    """Senders and receivers by step, from step 1, of one message from one source to all of `order` nodes."""

    order: int
    senders: tuple[int, ...]
    receivers: tuple[int, ...]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.receivers)

    @property
    def active(self) -> tuple[int, ...]:
        """Nodes that send or receive, by step."""
        return tuple(sent + received for sent, received in zip(self.senders, self.receivers, strict=True))

    @property
    def free(self) -> tuple[int, ...]:
        """Nodes that do neither, by step."""
        return tuple(self.order - active for active in self.active)

    @property
    def total_senders(self) -> int:
        """Senders summed over the steps (table 3): a node that sends in two steps counts twice."""
        return sum(self.senders)

    @property
    def average_receive_step(self) -> Fraction:
        """Mean step of receipt over the N^n - 1 receivers."""
        return Fraction(sum(step * count for step, count in enumerate(self.receivers, 1)), self.order - 1)


def improved(network: EisensteinJacobi) -> StepCounts:
    """Return the counts of algorithms 1 and 2: receivers [z^t] W(z)^n, senders [z^(t-1)] W(z)^(n-1) (W(z) - L(z)).

    A node has no child if it received the message in dimension 1 and has no child there.
    """
    distances, leaves = _one_dimension(network)
    # Dimensions 2..n of a receiver are arbitrary: W(z)^(n-1).
    below = [1]
    for _ in range(network.dimensions - 1):
        below = _product(below, distances)
    # Dimension 1 decides about children: a leaf has L(s) of the W(s) positions there.
    inner = [count - last for count, last in zip(distances, leaves, strict=True)]
    senders = _product(below, inner)
    # A send in step t is by a node that received in step t - 1, hence z^(t-1); at z^0 it is the source.
    return StepCounts(network.order, tuple(senders[:-1]), tuple(_product(below, distances)[1:]))


def iterative(network: EisensteinJacobi) -> StepCounts:
    """Return the algorithm of Hussain and Shamaei that the paper improves: n rounds of D steps, one dimension each.

    In step d of round r, W(d) N^(r-1) receive; N^(r-1) send for d = 1 and (W(d-1) - L(d-1)) N^(r-1) for d >= 2.
    """
    distances, leaves = _one_dimension(network)
    senders: list[int] = []
    receivers: list[int] = []
    for holders in (network.modulus**done for done in range(network.dimensions)):
        # Step d of a round: W(d) new positions in this dimension for each node that held the message before.
        receivers += [count * holders for count in distances[1:]]
        # In step d = 1 all holders send, leaves at distance 0 do not exist; later, the receivers of step d - 1.
        senders += [(count - last) * holders for count, last in zip(distances[:-1], leaves[:-1], strict=True)]
    return StepCounts(network.order, tuple(senders), tuple(receivers))


def saving(network: EisensteinJacobi) -> Fraction:
    """Return 1 - total senders of `improved` / total senders of `iterative` = 1 - N^(n-1) (N-1) / (N^n - 1)."""
    return 1 - Fraction(improved(network).total_senders, iterative(network).total_senders)


def mean_by_step(counts: Sequence[Sequence[int]]) -> tuple[Fraction, ...]:
    """Return the plain mean of several networks' counts, step by step (figures 19 to 21)."""
    return tuple(Fraction(sum(column), len(column)) for column in zip(*counts, strict=True))


def formula_12(network: EisensteinJacobi, round_: int, step: int) -> int:
    """Return the receivers in step d of round r = 1..n of the iterative algorithm, for b = a + 1: 6 d N^(r-1)."""
    return int(6 * step * network.modulus ** (round_ - 1))


def formula_13(network: EisensteinJacobi, round_: int, step: int) -> int:
    """Return the senders in step d of round r as printed: 6 (d-1) N^(r-1), wrong for d = 1 (N^(r-1) nodes send)."""
    return int(6 * (step - 1) * network.modulus ** (round_ - 1))


Terms = Counter[tuple[int, int, int]]
"""The terms S(n, x, y) of one step, with multiplicities."""


def recurrence(network: EisensteinJacobi) -> StepCounts:
    """Return the counts by eqs. (20) to (23), for b = a + 1.

    The terms S(n, x, y) of a step receive in it; all but S(1, 0, 0) send in the next. O2A(n) = O2A(n-1) + 6 S(n, D-1,
    D-1), O2A(0) = 0; S(n, x, y) becomes O2A(n-1) + S(n, x-1, 0) if x > 0 + S(n, x-1, y-1) if y > 0.
    """
    length = network.diameter // network.dimensions - 1
    # O2A(n) is sent in step 1, so its terms receive in step 1.
    terms = _one_to_all(network.dimensions, length)
    senders, receivers = [1], []
    while terms:
        receivers.append(terms.total())
        # S(1, 0, 0) is the only terminal term: no length left and no lower dimension.
        senders.append(terms.total() - terms[1, 0, 0])
        terms = _expand(terms, length)
    return StepCounts(network.order, tuple(senders[:-1]), tuple(receivers))


def _one_to_all(dimension: int, length: int) -> Terms:
    """Return O2A(n) of eq. (20) as a multiset of terms."""
    # Eq. (20), unrolled: 6 S(lower, D-1, D-1) for every dimension up to this one.
    return Counter({(lower, length, length): 6 for lower in range(1, dimension + 1)})


def _expand(terms: Terms, length: int) -> Terms:
    """Return every S replaced by its right side of eq. (21)."""
    found: Terms = Counter()
    for (dimension, x, y), count in terms.items():
        if x > 0:
            found[dimension, x - 1, 0] += count
        if y > 0:
            found[dimension, x - 1, y - 1] += count
        for term, six in _one_to_all(dimension - 1, length).items():
            found[term] += count * six
    return found


def _one_dimension(network: EisensteinJacobi) -> tuple[list[int], list[int]]:
    """Return W(s) and L(s), s = 0..D: for b = a + 1 L(D) = 6 D and 0 before, else by looking at each of the N nodes."""
    line = EisensteinJacobi(network.a, network.b)
    distances = list(line.distance_distribution())
    if network.b == network.a + 1:
        # All nodes at the largest distance, 6 D of them, and no others are leaves.
        return distances, [0] * line.diameter + [6 * line.diameter]
    tree = SectorTree(line)
    leaves = Counter(line.weight(rank) for rank in line.ranks() if not tree.child_ports(rank, 0))
    return distances, [leaves[s] for s in range(line.diameter + 1)]


def _product(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Return the product of two polynomials, coefficients from z^0."""
    product = [0] * (len(one) + len(other) - 1)
    for left, count in enumerate(one):
        for right, factor in enumerate(other):
            product[left + right] += count * factor
    return product

"""Reduce on the hypercube: Johnsson and Ho's broadcasts run backwards.

What would enter a node in step s leaves it in step T + 1 - s, folded with what its children sent. Turning time round
keeps the number of steps, the port model and all loads, so every claim of the broadcast holds as it stands.
"""

from emunode.algorithms.hypercube.broadcast import (
    BinomialBroadcast,
    EdgeDisjointBroadcast,
    GrayBroadcast,
    RotatedBinomialBroadcast,
    RotatedGrayBroadcast,
    TwoRootedBroadcast,
)
from emunode.model import Collective


class GrayReduce(GrayBroadcast):
    """Up the Gray code path: the broadcast `brg` backwards, 2P + N - 3 steps, with separate ports P + N - 2."""

    collective = Collective.REDUCE


class RotatedGrayReduce(RotatedGrayBroadcast):
    """Up n rotated Gray code paths: the broadcast `nrbrg` backwards, (N-1)P steps."""

    collective = Collective.REDUCE


class BinomialReduce(BinomialBroadcast):
    """Up the spanning binomial tree: the broadcast `sbt` backwards, nP steps over one port, P + n - 1 over all."""

    collective = Collective.REDUCE


class TwoRootedReduce(TwoRootedBroadcast):
    """Up the two-rooted complete binary tree: the broadcast `tcbt` backwards, 3P + 2n - 5 steps over one port."""

    collective = Collective.REDUCE


class RotatedBinomialReduce(RotatedBinomialBroadcast):
    """Up n rotated spanning binomial trees: the broadcast `nrsbt` backwards, 2n - 1 steps over one port, nP over all."""

    collective = Collective.REDUCE


class EdgeDisjointReduce(EdgeDisjointBroadcast):
    """Up n arc-disjoint spanning binomial trees: the broadcast `nesbt` backwards, P + n steps, without redundancy.

    Node i sends what it has folded of packet q in cycle T - 1 - (f(i, q mod n) + n floor(q/n)).
    """

    collective = Collective.REDUCE

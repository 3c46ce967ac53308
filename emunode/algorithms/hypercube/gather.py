"""Gather on the hypercube: Johnsson and Ho's scatters run backwards.

What would cross a link in step s crosses it the other way in step T + 1 - s. Turning time round keeps the number of
steps, the port model and all loads, cycle by cycle in reverse, so every claim of the scatter holds backwards.
"""

from emunode.algorithms.hypercube.scatter import (
    BalancedPathsScatter,
    BalancedScatter,
    BinomialScatter,
    EdgeDisjointScatter,
    RotatedBinomialScatter,
    RotatedGrayScatter,
    TwoRootedScatter,
)
from emunode.algorithms.hypercube.scatter_ordered import (
    BalancedCyclicScatter,
    BalancedPostorderScatter,
    BinomialGrayScatter,
    BinomialPostorderScatter,
    GrayScatter,
)
from emunode.model import Collective


class GrayGather(GrayScatter):
    """Along the Gray code path: the scatter `brg` backwards, the nearest first, max(2(N-1)k - k, 2N - 3) steps."""

    collective = Collective.GATHER


class RotatedGrayGather(RotatedGrayScatter):
    """Along n rotated Gray code paths: the scatter `nrbrg` backwards, N - 1 steps over all ports."""

    collective = Collective.GATHER


class BinomialGather(BinomialScatter):
    """Up the spanning binomial tree: the scatter `sbt` backwards, what a node holds doubles over one port, n steps."""

    collective = Collective.GATHER


class BinomialGrayGather(BinomialGrayScatter):
    """Up the spanning binomial tree: the scatter `sbt-gray` backwards, a packet reaches the root in every cycle."""

    collective = Collective.GATHER


class BinomialPostorderGather(BinomialPostorderScatter):
    """Up the spanning binomial tree: the scatter `sbt-postorder` backwards, N - 1 steps."""

    collective = Collective.GATHER


class TwoRootedGather(TwoRootedScatter):
    """Up the two-rooted complete binary tree: the scatter `tcbt` backwards, 2n - 2 steps over one port, n over all."""

    collective = Collective.GATHER


class RotatedBinomialGather(RotatedBinomialScatter):
    """Up n rotated spanning binomial trees: the scatter `nrsbt` backwards, 2n - 1 steps over one port, n over all."""

    collective = Collective.GATHER


class EdgeDisjointGather(EdgeDisjointScatter):
    """Up n arc-disjoint spanning binomial trees: the scatter `nesbt` backwards, n + 1 steps over all ports.

    With redundancy x the blocks of all healthy ranks survive x - 1 faults.
    """

    collective = Collective.GATHER


class BalancedGather(BalancedScatter):
    """Up the spanning balanced n-tree: the scatter `sbnt` backwards, 2n - 2 steps over one port, n over all."""

    collective = Collective.GATHER


class BalancedCyclicGather(BalancedCyclicScatter):
    """Up the spanning balanced n-tree: the scatter `sbnt-cyclic` backwards, N - 1 steps."""

    collective = Collective.GATHER


class BalancedPostorderGather(BalancedPostorderScatter):
    """Up the spanning balanced n-tree: the scatter `sbnt-postorder` backwards, N - 1 steps."""

    collective = Collective.GATHER


class BalancedPathsGather(BalancedPathsScatter):
    """Up the spanning balanced n-tree by several paths from cyclic nodes: the scatter `sbntc` backwards."""

    collective = Collective.GATHER

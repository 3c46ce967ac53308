"""The algorithms for hypercubes, in the order of Johnsson and Ho's tables.

The name of the spanning graph names the schedule that the paper's tables are about; a suffix names another published
one.
"""

from typing import Final

from emunode.algorithms.base import Algorithm
from emunode.algorithms.hypercube import (
    allgather,
    alltoall,
    broadcast,
    fifo,
    ring,
    scatter,
    scatter_ordered,
    scatter_rest,
)
from emunode.algorithms.hypercube.alltoall import reverse_breadth_first
from emunode.algorithms.transforms import backwards

ALGORITHMS: Final[tuple[type[Algorithm], ...]] = (
    # broadcast
    broadcast.GrayBroadcast,
    broadcast.RotatedGrayBroadcast,
    broadcast.BinomialBroadcast,
    broadcast.TwoRootedBroadcast,
    broadcast.RotatedBinomialBroadcast,
    broadcast.EdgeDisjointBroadcast,
    fifo.QueuedBroadcast,
    # reduce
    backwards(broadcast.GrayBroadcast),
    backwards(broadcast.RotatedGrayBroadcast),
    backwards(broadcast.BinomialBroadcast),
    backwards(broadcast.TwoRootedBroadcast),
    backwards(broadcast.RotatedBinomialBroadcast),
    backwards(broadcast.EdgeDisjointBroadcast, "It has no redundancy."),
    # scatter
    scatter_ordered.GrayScatter,
    scatter.RotatedGrayScatter,
    scatter.BinomialScatter,
    scatter_ordered.BinomialGrayScatter,
    scatter_ordered.BinomialPostorderScatter,
    fifo.BinomialQueuedScatter,
    scatter.TwoRootedScatter,
    scatter.RotatedBinomialScatter,
    fifo.RotatedBinomialQueuedScatter,
    scatter.EdgeDisjointScatter,
    scatter.BalancedScatter,
    scatter_ordered.BalancedCyclicScatter,
    scatter_ordered.BalancedPostorderScatter,
    fifo.BalancedQueuedScatter,
    scatter.BalancedPathsScatter,
    fifo.BalancedPathsQueuedScatter,
    scatter_rest.RotationsScatter,
    scatter_rest.ReflectionsScatter,
    # gather
    backwards(scatter_ordered.GrayScatter),
    backwards(scatter.RotatedGrayScatter),
    backwards(scatter.BinomialScatter),
    backwards(scatter_ordered.BinomialGrayScatter),
    backwards(scatter_ordered.BinomialPostorderScatter),
    backwards(scatter.TwoRootedScatter),
    backwards(scatter.RotatedBinomialScatter),
    backwards(scatter.EdgeDisjointScatter),
    backwards(scatter.BalancedScatter),
    backwards(scatter_ordered.BalancedCyclicScatter),
    backwards(scatter_ordered.BalancedPostorderScatter),
    backwards(scatter.BalancedPathsScatter),
    # allgather
    allgather.GrayAllgather,
    ring.RingAllgather,
    allgather.RotatedGrayAllgather,
    allgather.BinomialAllgather,
    allgather.TwoRootedAllgather,
    allgather.RotatedBinomialAllgather,
    allgather.RotatedExchangeAllgather,
    allgather.EdgeDisjointAllgather,
    allgather.BalancedAllgather,
    allgather.BalancedPathsAllgather,
    # alltoall
    alltoall.GrayAlltoall,
    alltoall.RotatedGrayAlltoall,
    reverse_breadth_first(alltoall.RotatedGrayAlltoall),
    alltoall.BinomialAlltoall,
    reverse_breadth_first(alltoall.BinomialAlltoall),
    alltoall.TwoRootedAlltoall,
    reverse_breadth_first(alltoall.TwoRootedAlltoall),
    alltoall.RotatedExchangeAlltoall,
    alltoall.RotatedBinomialAlltoall,
    reverse_breadth_first(
        alltoall.RotatedBinomialAlltoall,
        name="nrsbt-rbf",
        citation="Johnsson-Ho 1986, nRSBT in reverse breadth first order",
    ),
    alltoall.EdgeDisjointAlltoall,
    reverse_breadth_first(alltoall.EdgeDisjointAlltoall),
    alltoall.BalancedAlltoall,
    reverse_breadth_first(alltoall.BalancedAlltoall),
    alltoall.BalancedPathsAlltoall,
    reverse_breadth_first(alltoall.BalancedPathsAlltoall),
)

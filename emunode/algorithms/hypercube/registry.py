"""The algorithms for hypercubes, by collective: one line each, in the order of Johnsson and Ho's tables.

The name of the spanning graph names the schedule that the paper's tables are about; a suffix names another published
one.
"""

from collections.abc import Mapping

from emunode.algorithms.base import Algorithm
from emunode.algorithms.hypercube import allgather as hypercube_allgather
from emunode.algorithms.hypercube import alltoall as hypercube_alltoall
from emunode.algorithms.hypercube import broadcast as hypercube_broadcast
from emunode.algorithms.hypercube import fifo as hypercube_queued
from emunode.algorithms.hypercube import gather as hypercube_gather
from emunode.algorithms.hypercube import reduce as hypercube_reduce
from emunode.algorithms.hypercube import ring as hypercube_ring
from emunode.algorithms.hypercube import scatter as hypercube_scatter
from emunode.algorithms.hypercube import scatter_ordered as hypercube_scatter_ordered
from emunode.algorithms.hypercube import scatter_rest as hypercube_scatter_rest
from emunode.model import Collective

HYPERCUBE: Mapping[Collective, tuple[type[Algorithm], ...]] = {
    Collective.BROADCAST: (
        hypercube_broadcast.GrayBroadcast,
        hypercube_broadcast.RotatedGrayBroadcast,
        hypercube_broadcast.BinomialBroadcast,
        hypercube_broadcast.TwoRootedBroadcast,
        hypercube_broadcast.RotatedBinomialBroadcast,
        hypercube_broadcast.EdgeDisjointBroadcast,
        hypercube_queued.QueuedBroadcast,
    ),
    Collective.REDUCE: (
        hypercube_reduce.GrayReduce,
        hypercube_reduce.RotatedGrayReduce,
        hypercube_reduce.BinomialReduce,
        hypercube_reduce.TwoRootedReduce,
        hypercube_reduce.RotatedBinomialReduce,
        hypercube_reduce.EdgeDisjointReduce,
    ),
    Collective.SCATTER: (
        hypercube_scatter_ordered.GrayScatter,
        hypercube_scatter.RotatedGrayScatter,
        hypercube_scatter.BinomialScatter,
        hypercube_scatter_ordered.BinomialGrayScatter,
        hypercube_scatter_ordered.BinomialPostorderScatter,
        hypercube_queued.BinomialQueuedScatter,
        hypercube_scatter.TwoRootedScatter,
        hypercube_scatter.RotatedBinomialScatter,
        hypercube_queued.RotatedBinomialQueuedScatter,
        hypercube_scatter.EdgeDisjointScatter,
        hypercube_scatter.BalancedScatter,
        hypercube_scatter_ordered.BalancedCyclicScatter,
        hypercube_scatter_ordered.BalancedPostorderScatter,
        hypercube_queued.BalancedQueuedScatter,
        hypercube_scatter.BalancedPathsScatter,
        hypercube_queued.BalancedPathsQueuedScatter,
        hypercube_scatter_rest.RotationsScatter,
        hypercube_scatter_rest.ReflectionsScatter,
    ),
    Collective.GATHER: (
        hypercube_gather.GrayGather,
        hypercube_gather.RotatedGrayGather,
        hypercube_gather.BinomialGather,
        hypercube_gather.BinomialGrayGather,
        hypercube_gather.BinomialPostorderGather,
        hypercube_gather.TwoRootedGather,
        hypercube_gather.RotatedBinomialGather,
        hypercube_gather.EdgeDisjointGather,
        hypercube_gather.BalancedGather,
        hypercube_gather.BalancedCyclicGather,
        hypercube_gather.BalancedPostorderGather,
        hypercube_gather.BalancedPathsGather,
    ),
    Collective.ALLGATHER: (
        hypercube_allgather.GrayAllgather,
        hypercube_ring.RingAllgather,
        hypercube_allgather.RotatedGrayAllgather,
        hypercube_allgather.BinomialAllgather,
        hypercube_allgather.TwoRootedAllgather,
        hypercube_allgather.RotatedBinomialAllgather,
        hypercube_allgather.RotatedExchangeAllgather,
        hypercube_allgather.EdgeDisjointAllgather,
        hypercube_allgather.BalancedAllgather,
        hypercube_allgather.BalancedPathsAllgather,
    ),
    Collective.ALLTOALL: (
        hypercube_alltoall.GrayAlltoall,
        hypercube_alltoall.RotatedGrayAlltoall,
        hypercube_alltoall.RotatedGrayLevels,
        hypercube_alltoall.BinomialAlltoall,
        hypercube_alltoall.BinomialLevels,
        hypercube_alltoall.TwoRootedAlltoall,
        hypercube_alltoall.TwoRootedLevels,
        hypercube_alltoall.RotatedExchangeAlltoall,
        hypercube_alltoall.RotatedBinomialAlltoall,
        hypercube_alltoall.RotatedBinomialLevels,
        hypercube_alltoall.EdgeDisjointAlltoall,
        hypercube_alltoall.EdgeDisjointLevels,
        hypercube_alltoall.BalancedAlltoall,
        hypercube_alltoall.BalancedLevels,
        hypercube_alltoall.BalancedPathsAlltoall,
        hypercube_alltoall.BalancedPathsLevels,
    ),
}

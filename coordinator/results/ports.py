"""The port at which a packet arrives, from the port on which it left."""

from array import array

import numpy as np
import polars as pl

from emunode.topologies.base import CayleyTopology, Topology


def at_receiver(hops: pl.LazyFrame, topology: Topology) -> pl.LazyFrame:
    """`hops` with the receiver's port in place of the sender's; -1 for links that the topology does not have."""
    if isinstance(topology, CayleyTopology):
        reverse = {port: topology.reverse_port(port) for port in range(topology.degree)}
        return hops.with_columns(pl.col("port").replace_strict(reverse, default=-1, return_dtype=pl.Int16))
    ends = array("i", (port for rank in topology.ranks() for port in topology.reverse_ports(rank)))
    every = pl.int_range(len(ends), dtype=pl.Int32)
    table = pl.DataFrame({"port_there": np.frombuffer(ends, dtype=np.int32)}).select(
        sender=every // topology.degree,
        port=(every % topology.degree).cast(pl.Int16),
        port_there=pl.col("port_there").cast(pl.Int16),
    )
    found = hops.join(table.lazy(), on=["sender", "port"], how="left", maintain_order="left")
    return found.with_columns(port=pl.col("port_there").fill_null(-1)).drop("port_there")

"""Queries over a journal: their evaluation, and the ports of receivers."""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from coordinator.history.stored.tables import SHORT_ROWS
from emunode.topologies.base import CayleyTopology, Topology


def collect(queries: Iterable[pl.LazyFrame], rows: int | None) -> list[pl.DataFrame]:
    """Evaluate queries over a journal of `rows` rows; None if the number is unknown, and may be large.

    A journal may be larger than memory, so the queries over a long one are streamed. Over 36 rows that takes 0.4 ms for each
    query, mostly to start; in memory and without rewriting the query it takes 0.17 ms.
    """
    if rows is None or rows > SHORT_ROWS:
        return [query.collect(engine="streaming") for query in queries]
    return [query.collect(engine="in-memory", optimizations=pl.QueryOptFlags.none()) for query in queries]


def read_once(journal: pl.LazyFrame, rows: int | None) -> pl.LazyFrame:
    """Return a journal of `rows` rows, held in memory if it is short: each of twenty queries would read it, in 0.5 ms."""
    return journal if rows is None or rows > SHORT_ROWS else collect([journal], rows)[0].lazy()


def count_rows(queries: Sequence[pl.LazyFrame], rows: int | None) -> int:
    """Count the rows that all queries over a journal of `rows` rows give together; see `collect`."""
    counts = [query.select(pl.len()) for query in queries]
    if rows is not None and rows <= SHORT_ROWS:
        # As one query, because every start waits for a thread of polars: that takes long on a busy machine.
        counts = [pl.concat(counts, parallel=False).sum()]
    return sum(int(table.item()) for table in collect(counts, rows))


def at_receiver(hops: pl.LazyFrame, topology: Topology) -> pl.LazyFrame:
    """Return `hops` with the receiver's port in place of the sender's; -1 for links that the topology does not have."""
    if isinstance(topology, CayleyTopology):
        # The port at the other end is the same at every rank, so a table with one row for each port is enough.
        reverse = {port: topology.reverse_port(port) for port in range(topology.degree)}
        return hops.with_columns(pl.col("port").replace_strict(reverse, default=-1, return_dtype=pl.Int16))
    ends = array("i", (port for rank in topology.ranks() for port in topology.reverse_ports(rank)))
    # Entry k of the array belongs to port k % degree of rank k // degree.
    every = pl.int_range(len(ends), dtype=pl.Int32)
    table = pl.DataFrame({"port_there": np.frombuffer(ends, dtype=np.int32)}).select(
        sender=every // topology.degree,
        port=(every % topology.degree).cast(pl.Int16),
        port_there=pl.col("port_there").cast(pl.Int16),
    )
    joined = hops.join(table.lazy(), on=["sender", "port"], how="left", maintain_order="left")
    # A link that does not exist keeps its row, with a number that is no port, for the audit to find.
    return joined.with_columns(port=pl.col("port_there").fill_null(-1)).drop("port_there")

"""GOAL, the format of schedules that LogGOPSim simulates.

T. Hoefler, T. Schneider and A. Lumsdaine, "LogGOPSim", HPDC 2010. Every packet that arrived is one operation at its sender
and one at its receiver, with the step as the tag. At each rank, the operations of a step require all operations of the
previous active step of the rank. This keeps the executed order under any network model of the simulator. Lost packets have
no matching receive; they are omitted and counted in a comment.
"""

from collections.abc import Iterator

import polars as pl

from emunode.topologies.base import Topology


def goal_lines(topology: Topology, title: str, packets: pl.DataFrame) -> Iterator[str]:
    """Yield the lines of packets as GOAL: columns `step`, `sender`, `receiver`, `bytes` and `lost`.

    What a rank does in a step requires all that it does in its step before.
    """
    lost = int(packets["lost"].sum())
    yield f"num_ranks {topology.order}\n\n"
    yield f"// {topology.name}, {title}: {len(packets) - lost} packets\n"
    if lost:
        yield f"// {lost} packets were lost and are omitted\n"
    arrived = packets.filter(~pl.col("lost"))
    sends = arrived.select(rank="sender", step="step", other="receiver", way=pl.lit("send"), size="bytes")
    receipts = arrived.select(rank="receiver", step="step", other="sender", way=pl.lit("recv"), size="bytes")
    rows = pl.concat([sends, receipts]).sort("rank", "step", "way", "other").iter_rows()
    row = next(rows, None)
    for rank in topology.ranks():
        lines, before, now, step = [f"rank {rank} {{"], list[int](), list[int](), 0
        while row is not None and row[0] == rank:
            if row[1] != step:
                before, now, step = now, [], row[1]
            number = (now or before or [0])[-1] + 1
            now.append(number)
            way = "to" if row[3] == "send" else "from"
            lines.append(f"l{number}: {row[3]} {row[4]}b {way} {row[2]} tag {step}")
            lines += [f"l{number} requires l{earlier}" for earlier in before]
            row = next(rows, None)
        if len(lines) == 1:
            lines.append("l1: calc 0")
        yield "\n".join(lines) + "\n}\n\n"

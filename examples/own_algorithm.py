"""Your own algorithm: check a plug-in, run it, crash a node, and compare it with a built-in algorithm.

    python own_algorithm.py

The algorithm is in `highest_bit.py`, beside this file.
"""

from pathlib import Path

import coordinator as tb
from emunode.algorithms.registry import algorithms
from emunode.model import Collective
from emunode.testing import check_algorithm, check_locality
from emunode.topologies.hypercube import Hypercube

PLUGIN = str(Path(__file__).with_name("highest_bit.py"))


def main() -> None:
    net = tb.network("hypercube:4", plugin=PLUGIN)

    # Every port model, several messages and segments, every claim; then every rule alone, without other nodes.
    mine = algorithms("hypercube", Collective.BROADCAST)["highest-bit"]
    check_algorithm(mine, Hypercube(3))
    check_locality(mine, Hypercube(3))

    run = net.broadcast("highest-bit", source="0110", messages=3)
    print(run)
    print(run.claims.select("name", "predicted", "measured", "verdict"))

    # Hosts are processes of their own, which receive the text of the plug-in. The history is the same.
    hosts = net.broadcast("highest-bit", source="0110", messages=3, driver="local")
    print(f"over TCP: {hosts.verdict}, the same history: {tb.compare(run, hosts).same_history}")

    # Node 0001 relays to every odd address: crash it, and they are cut off.
    crashed = net.broadcast("highest-bit", faults="crash:0001@1").nodes
    cut_off = crashed.filter((crashed["received"] < crashed["expected"]) & (crashed["state"] == "alive"))
    print(f"crash:0001@1 cuts off {len(cut_off)} nodes: {', '.join(cut_off['label'])}")

    compared = tb.compare(run, net.broadcast("sbt", source="0110", messages=3)).metrics
    print(compared.filter(compared["name"].is_in(["steps", "packets", "startups", "virtual_seconds"])))


if __name__ == "__main__":
    main()

"""Your own network: a networkx graph, a file, and a family of networks as a plug-in.

    python own_network.py

The family is in `prefix_cycles.py`, beside this file.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import networkx

import coordinator as tb
from emunode.testing import check_topology

PLUGIN = str(Path(__file__).with_name("prefix_cycles.py"))


def main() -> None:
    # 1. A graph that you have in memory.
    club = tb.network(networkx.karate_club_graph(), name="karate")
    run = club.broadcast("bfs-tree", source="33")
    print(club, run, f"in {run.summary['steps']} steps")

    # 2. A graph in a file: GraphML, GML, node-link JSON, graph6, edge list.
    with TemporaryDirectory() as folder:
        file = Path(folder) / "campus.edges"
        file.write_text("gate library\nlibrary lab\nlab dormitory\ndormitory gate\ngate lab\n")
        campus = tb.network(file)
        print(campus, campus.broadcast("flood", source="library", faults="down:library~gate@1"))

    # 3. A family: all networks of a kind, by name, with translations, so that every algorithm for any network runs on it.
    net = tb.network("prefix-cycles:4", plugin=PLUGIN)
    check_topology(net.topology)
    print(net, f"degree {net.degree}, diameter {net.topology.diameter}")
    print(net.broadcast("bfs-tree", source="4231", faults=["crash:3124@2"]))


if __name__ == "__main__":
    main()

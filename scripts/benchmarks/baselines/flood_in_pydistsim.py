"""A flood in PyDistSim. Runs with whatever interpreter PyDistSim is installed for."""

import time

from pydistsim import disable_logger
from pydistsim.demo_algorithms.broadcast import Flood
from pydistsim.network import BidirectionalNetwork
from pydistsim.simulation import Simulation

from benchmarks.worker import answer

disable_logger()
WIDTH = 500
"""Nodes in a row: they must lie in an area of 600 by 600, wherever their links go."""


def flood(order: int, links: list[tuple[int, int]]) -> float:
    """Return seconds until a message has reached every node."""
    network = BidirectionalNetwork()
    nodes = [network.add_node(pos=(rank % WIDTH, rank // WIDTH)) for rank in range(order)]
    for one, other in links:
        network.add_edge(nodes[one], nodes[other])
    simulation = Simulation(network)
    simulation.algorithms = ((Flood, {"informationKey": "message", "initial_information": "m" * 64}),)
    began = time.perf_counter()
    simulation.run(0)
    spent = time.perf_counter() - began
    if not all("message" in node.memory for node in nodes):
        raise SystemExit("the message did not reach every node")
    return spent


if __name__ == "__main__":
    answer({"flood": flood})

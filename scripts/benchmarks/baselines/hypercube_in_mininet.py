"""A hypercube of directly linked Mininet hosts, up and down. Runs with the interpreter that Mininet is installed for."""

import time

from mininet.net import Mininet

from benchmarks.worker import answer


def up_and_down(dimensions: int) -> tuple[float, float, float]:
    """Return seconds until the hosts are there, from then until the links are, and until all is gone again."""
    Mininet.inited = True  # else it would raise limits of the whole machine, which hosts without switches do not need
    began = time.perf_counter()
    network = Mininet(controller=None)
    hosts = [network.addHost(f"h{rank}") for rank in range(1 << dimensions)]
    there = time.perf_counter()
    for rank, host in enumerate(hosts):
        for dimension in range(dimensions):
            if rank < rank ^ 1 << dimension:
                network.addLink(host, hosts[rank ^ 1 << dimension])
    network.start()
    up = time.perf_counter()
    network.stop()
    return there - began, up - there, time.perf_counter() - up


if __name__ == "__main__":
    answer({"up_and_down": up_and_down})

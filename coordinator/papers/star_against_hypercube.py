"""The star graph beside the hypercube of nearest size: lower bounds of the papers, and what runs measure.

Fragopoulou and Akl 1993 (TR 93-346), tables 4 (S_n), 5 (C_k) and 6 (the two compared), and the closing table of
Fragopoulou and Akl 1996 for fault-tolerant single node broadcast. Their unit of time is one message over one link. A
hypercube algorithm may send several in a packet, so time is the transfer of the heaviest link, summed over steps, in
messages; for the star algorithms, one message a packet, that is the number of steps. Erratum: table 6 prints n! n for total
exchange on C_n over one port; k 2^(k-1) gives n! n log n.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, factorial, log2
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator.plan import make_plan
from coordinator.run import run
from coordinator.scenario import make_scenario
from emunode.errors import ScenarioError
from emunode.topology.base import Topology
from emunode.topology.hypercube import Hypercube
from emunode.topology.star import StarGraph

SIZES = range(3, 6)
MESSAGE_BYTES = 840
"""A multiple of every degree in question, so that parts are equal."""


@dataclass(frozen=True)
class Problem:
    """One row of tables 4 and 5: bounds as functions of the network, and who meets them on each."""

    name: str
    collective: str
    transmissions: Callable[[Topology], int]
    one_port: Callable[[Topology], int]
    all_port: Callable[[Topology], int]
    algorithms: dict[tuple[str, str], str]
    """(family, port model) -> algorithm."""


def _total_distance(network: Topology) -> int:
    return sum(distance * count for distance, count in enumerate(network.distance_distribution()))


def _others_over_links(network: Topology) -> int:
    return ceil((network.order - 1) / network.degree)


PROBLEMS = (
    Problem(
        "multinode broadcast",
        "allgather",
        lambda network: network.order * (network.order - 1),
        lambda network: network.order - 1,
        _others_over_links,
        {
            ("star", "one-port"): "hamiltonian-cycle",
            ("star", "all-port"): "mbst",
            ("hypercube", "one-port"): "sbt",
            ("hypercube", "all-port"): "sbntc",
        },
    ),
    Problem(
        "single node scatter",
        "scatter",
        _total_distance,
        lambda network: network.order - 1,
        _others_over_links,
        {
            ("star", "one-port"): "balanced-tree",
            ("star", "all-port"): "balanced-tree",
            ("hypercube", "one-port"): "sbt",
            ("hypercube", "all-port"): "sbntc",
        },
    ),
    Problem(
        "total exchange",
        "alltoall",
        lambda network: network.order * _total_distance(network),
        _total_distance,
        lambda network: ceil(_total_distance(network) / network.degree),
        {
            ("star", "one-port"): "near-balanced-tree",
            ("star", "all-port"): "list-schedule",
            ("hypercube", "one-port"): "sbt",
            ("hypercube", "all-port"): "nrsbt",
        },
    ),
)


def networks(n: int) -> tuple[Topology, Topology]:
    """S_n and the hypercube whose order is nearest to n! by ratio."""
    if n not in SIZES:
        raise ScenarioError("n", n, f"{SIZES[0]}..{SIZES[-1]}: larger total exchanges take minutes")
    return StarGraph(n), Hypercube(round(log2(factorial(n))))


def rows(n: int) -> Iterator[dict[str, object]]:
    """Every row: one problem on both networks, bound and measurement of each."""
    pair = networks(n)
    for problem in PROBLEMS:
        yield _row(problem.name, "transmissions", pair, problem.transmissions, _measure_hops(problem))
        for model, bound in (("one-port", problem.one_port), ("all-port", problem.all_port)):
            yield _row(problem.name, f"{model} time", pair, bound, _measure_time(problem, model))
    for redundancy in range(1, n):
        yield _row(
            f"broadcast over {redundancy} disjoint trees",
            "all-port time",
            pair,
            lambda network, x=redundancy: ceil(x / network.degree) + network.diameter - 1,  # type: ignore[misc]
            lambda network, x=redundancy: _broadcast_steps(network, x),  # type: ignore[misc]
        )


def _row(
    problem: str,
    quantity: str,
    pair: tuple[Topology, Topology],
    bound: Callable[[Topology], int],
    measured: Callable[[Topology], float],
) -> dict[str, object]:
    row: dict[str, object] = {"problem": problem, "quantity": quantity}
    for network in pair:
        row[f"{network.name} bound"] = bound(network)
        row[f"{network.name} measured"] = measured(network)
    return row


def _summary(**values: object) -> dict[str, object]:
    plan = make_plan(make_scenario({"driver": "memory", "message_bytes": MESSAGE_BYTES, **values}))
    with TemporaryDirectory() as folder:
        return run(plan, Path(folder) / "run", lambda *_: None).summary


def _port_model(network: Topology, model: str) -> str:
    return "exchange" if network.family == "hypercube" and model == "one-port" else model


def _run(problem: Problem, network: Topology, model: str) -> dict[str, object]:
    return _summary(
        topology=network.name,
        collective=problem.collective,
        algorithm=problem.algorithms[network.family, model],
        port_model=_port_model(network, model),
    )


def _measure_time(problem: Problem, model: str) -> Callable[[Topology], float]:
    return lambda network: _messages(_run(problem, network, model)["transfer_bytes"])


def _measure_hops(problem: Problem) -> Callable[[Topology], float]:
    return lambda network: _messages(_run(problem, network, "one-port")["bytes"])


def _messages(size: object) -> float:
    """Bytes as messages; a fraction where the hypercube's algorithms move equal parts of messages over all ports."""
    whole, rest = divmod(int(str(size)), MESSAGE_BYTES)
    return whole + round(rest / MESSAGE_BYTES, 3) if rest else whole


def _broadcast_steps(network: Topology, redundancy: int) -> float:
    algorithm = "edt" if network.family == "star" else "nesbt"
    summary = _summary(topology=network.name, collective="broadcast", algorithm=algorithm, redundancy=redundancy)
    return int(str(summary["steps"]))

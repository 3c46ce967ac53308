"""The star graph beside the hypercube of nearest size: lower bounds of the papers, and what runs measure.

Fragopoulou and Akl 1993 (TR 93-346), tables 4 (S_n), 5 (C_k) and 6 (the two compared), and the closing table of
Fragopoulou and Akl 1996 for fault-tolerant single node broadcast. Their unit of time is one message over one link. A
hypercube algorithm may send several in a packet, so time is the transfer of the heaviest link, summed over steps, in
messages; for the star algorithms, one message a packet, that is the number of steps. Erratum: table 6 prints n! n for total
exchange on C_n over one port; k 2^(k-1) gives n! n log n.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, factorial, log2

from coordinator.claims import Verdict
from coordinator.papers.base import ERRATUM, VERDICT, Lab, Reproduction, Section, Table, Trial, compared, verdict_of
from emunode.topology.base import Topology
from emunode.topology.hypercube import Hypercube
from emunode.topology.star import StarGraph

QUANTITIES = ("transmissions", "one-port time", "all-port time")
MESSAGE_BYTES = 840
"""A multiple of every degree in question, so that parts are equal."""


@dataclass(frozen=True)
class Problem:
    """One row of tables 4 and 5: bounds as functions of the network, and who meets them on each."""

    name: str
    collective: str
    transmissions: Callable[[Topology], int]
    one_port: Callable[[Topology], int]
    all_port: Callable[[Topology], float]
    algorithms: Mapping[tuple[str, str], str]
    """(family, port model) -> algorithm."""


def _total_distance(network: Topology) -> int:
    return sum(distance * count for distance, count in enumerate(network.distance_distribution()))


def _others_over_links(network: Topology) -> float:
    return (network.order - 1) / network.degree


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
        lambda network: _total_distance(network) / network.degree,
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
    return StarGraph(n), Hypercube(round(log2(factorial(n))))


def build(lab: Lab) -> Iterator[Section]:
    """One table a size: both networks side by side."""
    for n in lab.sizes:
        star, cube = networks(n)
        yield Table(f"{star.title} beside {cube.title}", list(rows(lab, n)), NOTES if n == lab.sizes[-1] else ())


NOTES = (
    "Time: what the heaviest link carries, summed over steps, in messages. Equal parts of messages need no rounding up.",
    f"{ERRATUM} Table 6 prints n! n for total exchange on C_n over one port; k 2^(k-1) of table 5 gives n! n log n.",
)


def rows(lab: Lab, n: int) -> Iterator[dict[str, object]]:
    """Every row: one problem on both networks, bound and measurement of each."""
    pair = networks(n)
    for problem in PROBLEMS:
        for quantity in QUANTITIES:
            halves = [bound_row(lab, network, problem, quantity) for network in pair]
            yield _side_by_side(problem.name, quantity, pair, halves)
    for redundancy in range(1, n):
        halves = [_broadcast(lab, network, redundancy) for network in pair]
        yield _side_by_side(f"broadcast over {redundancy} disjoint trees", "all-port time", pair, halves)


def _side_by_side(
    problem: str, quantity: str, pair: tuple[Topology, Topology], halves: list[dict[str, object]]
) -> dict[str, object]:
    row: dict[str, object] = {"problem": problem, "quantity": quantity}
    for network, half in zip(pair, halves, strict=True):
        row |= {f"{network.name} bound": half["paper"], f"{network.name} measured": half["measured"]}
    return row | {VERDICT: str(verdict_of(Verdict(str(half[VERDICT])) for half in halves))}


def bound_row(lab: Lab, network: Topology, problem: Problem, quantity: str) -> dict[str, object]:
    """A bound of table 4 or 5 and the run that meets it, as the columns of `compared`."""
    if quantity == "transmissions":
        trial = _run(lab, problem, network, "one-port")
        bound: float = problem.transmissions(network)
        return compared(bound, messages(trial, "bytes"), trial, paper=bound, bound=bound)
    model = quantity.removesuffix(" time")
    trial = _run(lab, problem, network, model)
    time = (problem.one_port if model == "one-port" else problem.all_port)(network)
    printed = ceil(time)
    parts = network.family == "hypercube" and model == "all-port"
    exact = time if parts else printed
    return compared(round(exact, 3), messages(trial, "transfer_bytes"), trial, paper=printed, bound=round(exact, 3))


def _run(lab: Lab, problem: Problem, network: Topology, model: str) -> Trial:
    return lab.run(
        topology=network.name,
        collective=problem.collective,
        algorithm=problem.algorithms[network.family, model],
        port_model="exchange" if network.family == "hypercube" and model == "one-port" else model,
        message_bytes=MESSAGE_BYTES,
    )


def messages(trial: Trial, metric: str) -> float:
    """Bytes as messages; a fraction where the hypercube's algorithms move equal parts of messages over all ports."""
    whole, rest = divmod(int(trial.number(metric)), MESSAGE_BYTES)
    return whole + round(rest / MESSAGE_BYTES, 3) if rest else whole


def _broadcast(lab: Lab, network: Topology, redundancy: int) -> dict[str, object]:
    algorithm = "edt" if network.family == "star" else "nesbt"
    trial = lab.run(topology=network.name, collective="broadcast", algorithm=algorithm, redundancy=redundancy)
    bound = ceil(redundancy / network.degree) + network.diameter - 1
    return compared(bound, trial.number("steps"), trial, paper=bound, relation=">=", bound=bound)


REPRODUCTION = Reproduction(
    name="star-against-hypercube",
    title="The star graph beside the hypercube",
    paper="Fragopoulou-Akl 1993 (TR 93-346), tables 4 to 6; Fragopoulou-Akl 1996, closing table",
    description="S_n and the hypercube of nearest size: lower bounds, and what runs measure.",
    build=build,
    sizes=range(3, 6),
)

"""Statements of Hussain's text outside its tables: steps of receipt, recurrences, and the misprint of Algorithm 1."""

from collections.abc import Iterator, Mapping, Sequence

from coordinator.annexes.papers.hussain.node_counts import ALGORITHMS, PROPOSED, A, B, counted, name_of, together
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import VERDICT, marked, row_verdict, verdict_of
from emunode.algorithms.eisenstein_jacobi import counts as ej_counts
from emunode.algorithms.eisenstein_jacobi.literal import PrintedBroadcast
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi


def averages_of_receipt(cache: RunCache) -> Iterator[dict[str, object]]:
    """Compare the number of steps and the average step of receipt, in every network that is run."""
    cases = [(A, B, n) for n in cache.sizes] + [(2, 3, n) for n in cache.sizes if n < 3]
    for a, b, n in cases:
        pair = [counted(cache, name, a, b, n, run=True) for name in ALGORITHMS]
        network = pair[0].network
        steps = [int(found.trial.number("steps")) for found in pair if found.trial]
        seen = [round(float(found.trial.number("average_receive_step")), 6) for found in pair if found.trial]
        predicted = [round(float(found.counts.average_receive_step), 6) for found in pair]
        better = seen[1] < seen[0] if n > 1 else seen[1] == seen[0]
        yield {
            "network": name_of(network),
            "steps, paper nM": network.dimensions * network.a if b == a + 1 else None,
            "lower bound": network.diameter,
            "steps": together(steps),
            "ratio": round(max(steps) / network.diameter, 4),
            "average step, predicted": " / ".join(f"{value:.6f}" for value in predicted),
            "measured": " / ".join(f"{value:.6f}" for value in seen),
            VERDICT: verdict_of(
                found.verdict(seen == predicted, better, steps == [network.diameter] * 2) for found in pair
            ),
        }


def recurrences(cache: RunCache) -> Iterator[dict[str, object]]:
    """Compare eqs. (20) to (23) with the run; EJ_{2+3rho}^(2) is the example of the paper."""
    printed = {(2, 3, 2): ((1, 12, 48, 72), (12, 60, 144, 144))}
    for a, b, n in ((2, 3, 2), *((A, B, n) for n in cache.sizes)):
        if n not in cache.sizes:
            continue
        found = counted(cache, PROPOSED, a, b, n, run=True)
        terms = ej_counts.recurrence(found.network)
        example = printed.get((a, b, n))
        for at, what in ((1, "senders"), (2, "receivers")):
            recurrence = terms.senders if at == 1 else terms.receivers
            seen = tuple(row[at] for row in found.measured or [])
            yield {
                "network": name_of(found.network),
                "of": what,
                "paper": ", ".join(map(str, example[at - 1])) if example else None,
                "eqs. (20) to (23)": ", ".join(map(str, recurrence)),
                "measured": ", ".join(map(str, seen)),
                VERDICT: found.verdict(recurrence == seen, example is None or example[at - 1] == seen),
            }


MISPRINTED: Mapping[int, Sequence[tuple[int, int]]] = {
    1: ((1, 2), (2, 3), (3, 4), (4, 5)),
    2: ((2, 3), (3, 4)),
    3: ((3, 4),),
}
"""alpha of the networks where Algorithm 1 runs as printed, by number of dimensions."""


def misprint(cache: RunCache) -> Iterator[dict[str, object]]:
    """Run algorithm 1 with line 6 as printed: the nodes that it reaches, and the number of duplicates."""
    for n in cache.sizes:
        for a, b in MISPRINTED[n]:
            network = EisensteinJacobi(a, b, n)
            trial = cache.run(network, "broadcast", PrintedBroadcast.name, duplex="half")
            # Algorithm 1, line 6 as printed: the axis of sector 4 turns into sector 5, so floor(M^2/4) nodes are missed
            reached = (network.modulus - a * a // 4) ** n
            missing = network.order - reached
            found, again = 1 + int(trial.number("intact_deliveries")), int(trial.number("duplicates"))
            legal = trial.number("illegal_hops") == 0
            yield {
                "network": name_of(network),
                "nodes reached, paper": marked(f"{network.order:,}", erratum=missing > 0),
                "predicted": reached,
                "measured": found,
                "received again, predicted": missing,
                "received again": again,
                "steps": int(trial.number("steps")),
                VERDICT: row_verdict(found == reached, again == missing, legal, trials=[trial], refuted=missing > 0),
            }

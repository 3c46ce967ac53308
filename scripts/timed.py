"""Measure the lateness of this machine under the timed clock, and the speed-up of nESBT over SBT in real time.

Ring test: all nodes of S_n forward packets along a Hamiltonian cycle at the same time. Theory predicts a duration of
hops x (startup + bytes x per_byte). The result is the median over several runs of the lateness of the last packet, as a
share of that duration. The table also has the mean and worst lateness of any departure or receipt, and the load in packets
per millisecond. Other programs on the machine add to the lateness, so each row shows the load average. If possible, all runs
use their own network namespace, as with `--netns`, because a packet filter would delay each packet.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from coordinator.execution.run import run
from coordinator.papers.johnsson_ho import timed_speedup
from coordinator.papers.run_cache import open_run_cache
from coordinator.planning.namespace import enter_own_network, unavailable_reason
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import make_scenario

CASES = ((4, 5.0, 0.01), (4, 1.0, 0.05), (5, 5.0, 0.03), (6, 8.0, 0.08))
"""(n of S_n, startup in milliseconds, target for the median lateness as a share)."""
OVERLOAD = (6, 2.0)
"""(n of S_n, startup in milliseconds): more packets per millisecond than two cores can handle."""


@dataclass(frozen=True)
class Row:
    """Results of several runs of one case; times in milliseconds."""

    nodes: int
    startup_ms: float
    hops: int
    intended_ms: float
    lateness_ratio: float
    wanted: float | None
    best: float
    worst: float
    mean_lateness_ms: float
    worst_lateness_ms: float
    packets_per_ms: float
    verdict: str
    load: float

    @property
    def met(self) -> bool:
        """Whether the median lateness meets its target."""
        return self.verdict != "failed" and (self.wanted is None or self.lateness_ratio <= self.wanted)


def ring(n: int, startup_ms: float, hops: int, runs: int, wanted: float | None) -> Row:
    """Run the ring of S_n with `hops` hops several times."""
    scenario = make_scenario({
        "topology": f"star:{n}",
        "collective": "allgather",
        "algorithm": "hamiltonian-cycle",
        "port_model": "one-port",
        "clock": "timed",
        "startup": f"{startup_ms}ms",
        "step_limit": hops,
    })  # fmt: skip
    plan = make_plan(scenario)
    load = os.getloadavg()[0]
    summaries = []
    for _ in range(runs):
        with TemporaryDirectory() as folder:
            summaries.append(run(plan, Path(folder) / "run", lambda *_: None).summary)

    def all_of(key: str) -> list[float]:
        return [float(str(summary[key])) for summary in summaries]

    expected = f"the step limit of {hops} was reached"
    reasons = {str(summary["undecided_because"] or expected).removeprefix(expected) for summary in summaries} - {""}
    verdict = (
        "punctual" if not reasons else "late" if all("the machine was late" in why for why in reasons) else "failed"
    )
    if verdict == "failed":
        print(*sorted(reasons), sep="\n", file=sys.stderr)
    shares = all_of("lateness_ratio")
    return Row(
        nodes=plan.topology.order,
        startup_ms=startup_ms,
        hops=hops,
        intended_ms=median(all_of("intended_seconds")) * 1000,
        lateness_ratio=median(shares),
        wanted=wanted,
        best=min(shares),
        worst=max(shares),
        mean_lateness_ms=median(all_of("mean_lateness_seconds")) * 1000,
        worst_lateness_ms=median(all_of("worst_lateness_seconds")) * 1000,
        packets_per_ms=median(all_of("packets_per_ms")),
        verdict=verdict,
        load=load,
    )


def table(hops: int, runs: int) -> Iterator[Row]:
    """All cases, then one overload."""
    for n, startup_ms, wanted in CASES:
        yield ring(n, startup_ms, hops, runs, wanted)
    yield ring(*OVERLOAD, hops, 1, None)


def main() -> int:
    """Print the tables; exit status 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of each case (default 5)")
    parser.add_argument("--hops", type=int, default=20, help="hops of each run (default 20)")
    parser.add_argument("--speedup", action="store_true", help="measure nESBT over SBT instead (15 s)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a table")
    options = parser.parse_args()
    if refusal := unavailable_reason():
        print(refusal, file=sys.stderr)
    else:
        enter_own_network()
    if options.speedup:
        return speedup(as_json=options.json)
    met = True
    line = "{:>5} {:>8} {:>5} {:>9} {:>8} {:>7} {:>17} {:>9} {:>10} {:>8} {:>9} {:>6}"
    heads = ("nodes", "startup", "hops", "theory", "late by", "wanted", "best..worst run", "mean late", "worst late")
    if not options.json:
        print(line.format(*heads, "pkts/ms", "verdict", "load"))
    for row in table(options.hops, options.runs):
        met &= row.met
        if options.json:
            print(json.dumps(asdict(row)), flush=True)
            continue
        print(
            line.format(
                row.nodes,
                f"{row.startup_ms:g} ms",
                row.hops,
                f"{row.intended_ms:.2f} ms",
                f"{row.lateness_ratio:.2%}",
                "" if row.wanted is None else f"{row.wanted:.0%}",
                f"{row.best:.2%}..{row.worst:.2%}",
                f"{row.mean_lateness_ms:.3f} ms",
                f"{row.worst_lateness_ms:.2f} ms",
                f"{row.packets_per_ms:.1f}",
                row.verdict if row.met else "short",
                f"{row.load:.1f}",
            ),
            flush=True,
        )
    return 0 if met else 1


def speedup(*, as_json: bool) -> int:
    """Figures 16 and 17 of Johnsson and Ho in real time."""
    met = True
    with open_run_cache() as cache:
        for row in timed_speedup.rows(replace(cache, sizes=timed_speedup.REPRODUCTION.sizes)):
            met &= row["verdict"] == "holds"
            shown = "  ".join(f"{key} {_short(value)}" for key, value in row.items())
            print(json.dumps(row) if as_json else shown, flush=True)
    return 0 if met else 1


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())

"""Measure the lateness of this machine under the timed clock.

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
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink
from coordinator.planning.namespace import enter_own_network, unavailable_reason
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import make_scenario

CASES = ((4, 5.0, 0.01), (4, 1.0, 0.05), (5, 5.0, 0.03), (6, 8.0, 0.08))
"""(n of S_n, startup in milliseconds, target for the median lateness as a share)."""
OVERLOAD = (6, 2.0)
"""(n of S_n, startup in milliseconds): more packets per millisecond than two cores can handle."""


COLUMNS = {
    "nodes": "{}",
    "startup_ms": "{:g}",
    "hops": "{}",
    "intended_ms": "{:.2f}",
    "lateness_ratio": "{:.2%}",
    "wanted": "{:.0%}",
    "best": "{:.2%}",
    "worst": "{:.2%}",
    "mean_lateness_ms": "{:.3f}",
    "worst_lateness_ms": "{:.2f}",
    "packets_per_ms": "{:.1f}",
    "verdict": "{}",
    "load": "{:.1f}",
}
"""Columns of the table with their formats; times in milliseconds."""


def ring(n: int, startup_ms: float, hops: int, runs: int, wanted: float | None) -> dict[str, Any]:
    """Run the ring of S_n with `hops` hops several times; one row of the table."""
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
            summaries.append(run(plan, DirectorySink(Path(folder) / "run")).summary)

    def typical(key: str) -> float:
        return median(float(str(summary[key])) for summary in summaries)

    ratios = [float(str(summary["lateness_ratio"])) for summary in summaries]
    return {
        "nodes": plan.topology.order,
        "startup_ms": startup_ms,
        "hops": hops,
        "intended_ms": typical("intended_seconds") * 1000,
        "lateness_ratio": median(ratios),
        "wanted": wanted,
        "best": min(ratios),
        "worst": max(ratios),
        "mean_lateness_ms": typical("mean_lateness_seconds") * 1000,
        "worst_lateness_ms": typical("worst_lateness_seconds") * 1000,
        "packets_per_ms": typical("packets_per_ms"),
        "verdict": verdict(hops, [str(summary["undecided_because"] or "") for summary in summaries]),
        "load": load,
    }


def verdict(hops: int, undecided: Iterable[str]) -> str:
    """Return `punctual`, `late`, or `failed` if a run ended for another reason than its step limit or its lateness."""
    expected = f"the step limit of {hops} was reached"
    reasons = {reason.removeprefix(expected) for reason in undecided} - {""}
    if all("the machine was late" in reason for reason in reasons):
        return "late" if reasons else "punctual"
    print(*sorted(reasons), sep="\n", file=sys.stderr)
    return "failed"


def table(hops: int, runs: int) -> Iterator[dict[str, Any]]:
    """Yield all cases, then one overload."""
    for n, startup_ms, wanted in CASES:
        yield ring(n, startup_ms, hops, runs, wanted)
    yield ring(*OVERLOAD, hops, 1, None)


def main() -> int:
    """Print the table; exit status 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of each case (default 5)")
    parser.add_argument("--hops", type=int, default=20, help="hops of each run (default 20)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a table")
    options = parser.parse_args()
    if refusal := unavailable_reason():
        print(refusal, file=sys.stderr)
    else:
        enter_own_network()
    met = True
    if not options.json:
        print(*COLUMNS, sep="  ")
    for row in table(options.hops, options.runs):
        in_time = row["wanted"] is None or row["lateness_ratio"] <= row["wanted"]
        met &= in_time and row["verdict"] != "failed"
        if options.json:
            print(json.dumps(row), flush=True)
            continue
        shown = row if in_time else {**row, "verdict": "short"}
        cells = ("" if shown[name] is None else form.format(shown[name]) for name, form in COLUMNS.items())
        print(*map(str.rjust, cells, map(len, COLUMNS)), sep="  ", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

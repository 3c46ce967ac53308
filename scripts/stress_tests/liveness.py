"""Random runs whose faults all end: everything due must finish within its bound, or the run must say what waits.

Reliable links, repair by requests and shrinking under both clocks, in memory, some over hosts as well. A judge of its own
follows one segment over reliable links down one tree: the arrivals and the bound follow from the tree and from the outages
of its links alone. That wrong links are noticed is a test (tests/coordinator/features/test_liveness.py).
"""

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import polars as pl

from stress_tests.common import Attempt, Budget, Row, attempt_of

NETWORKS = ("star:3", "star:4", "hypercube:2", "hypercube:3", "ej:1+2", "ej:2+3", "torus:3x4", "complete:5", "mesh:2x3")
MODES = ("reliable", "reliable", "repair", "shrink")
TIMED_MODES = ("reliable", "reliable", "reliable", "repair")
TREES = (
    "hypercube:3 sbt",
    "hypercube:4 sbt",
    "star:4 greedy-tree",
    "torus:3x4 bfs-tree",
    "ej:2+3 improved",
    "mesh:3x3 bfs-tree",
)
LATEST = 14
"""The last step when faults end."""
ON_HOSTS = 25
"""One in this number of runs in lock-step is repeated over hosts."""
CLAIMS = ("waiting_nodes", "settling_steps", "settling_seconds")
KINDS = {
    "reliable": ("crash", "hang", "down", "down", "loss", "drop", "delay", "duplicate"),
    "repair": ("crash", "down"),
    "shrink": ("crash", "crash", "crash", "down"),
}
"""The faults that each protocol can make up for, most often."""

Values = dict[str, Any]


def draw(seed: int, number: int, *, timed: bool) -> Values:
    """Return a scenario with faults that all end, or are crashes that repair and shrinking outlast; it may be refused."""
    from coordinator.campaigns.fault_coverage import FaultCoverage
    from emunode.algorithms.registry import algorithms
    from emunode.model import FOLDING, Collective
    from emunode.topologies.registry import parse_topology

    chance = random.Random(f"{seed}/{number}/{timed}")
    topology, mode = parse_topology(chance.choice(NETWORKS)), (TIMED_MODES if timed else MODES)[number % len(MODES)]
    collective = Collective.BROADCAST
    if mode != "repair":
        fitting = [each for each in Collective if mode == "shrink" or each not in FOLDING]
        collective = chance.choice([each for each in fitting if algorithms(topology.family, each)])
    values: Values = {
        "topology": topology.name,
        "collective": str(collective),
        "algorithm": chance.choice(list(algorithms(topology.family, collective))),
        "seed": chance.randrange(1000),
        "driver": "memory",
    }
    source = chance.randrange(topology.order)
    if collective in (Collective.BROADCAST, Collective.SCATTER, Collective.GATHER, Collective.REDUCE):
        values["source"] = topology.label(source)
    if mode == "reliable":
        values |= {
            "reliable": True,
            "port_model": chance.choice(("all-port", "all-port", "one-port")),
            "window": chance.choice((1, 1, 2, 4)),
            "back_off": chance.random() < 0.3,
            "messages": chance.choice((1, 1, 2, 3)),
            "segments": chance.choice((1, 1, 2)),
            "attempts": chance.choice((2, 5, 20, 20)),
        }
    elif mode == "repair":
        values |= {"repair": "next-port", "repair_after": chance.choice((1, 2, 3))}
    else:
        values |= {"fault_knowledge": f"detect:{chance.choice((1, 2))}", "on_failure": "shrink"}
    end = chance.randint(2, LATEST)
    if timed:
        values |= {"clock": "timed", "startup": "1ms", "per_byte": "1us"}
        if mode == "shrink":
            values["keep_alive"] = "40ms"
    elif mode == "reliable" and chance.random() < 0.3:
        values["retransmit_after"] = chance.randint(2, 8)
    if mode == "reliable" or (mode == "repair" and chance.random() < 0.3):
        values["heal_at"] = f"{end}ms" if timed else end
    coverage = FaultCoverage(topology, end - 1, spared=[source])
    faults = [coverage.draw(chance, KINDS[mode]) for _ in range(chance.randint(1, 3))]
    if timed:
        placed = (fault.rpartition("@") for fault in faults)
        faults = [f"{place}@{int(step) - chance.random():.3f}ms" for place, _, step in placed]
    return {**values, "fault": tuple(faults)}


def attempt(budget: Budget, timed: bool, number: int) -> Attempt:
    """Run one scenario, and compare its end with the claims, and where it can with the judge of this module."""
    from emunode.errors import ScenarioError
    from tests.helpers.scenarios import Case

    values = draw(budget.seed, number, timed=timed)
    case = Case(values)
    try:
        _ = case.plan
    except ScenarioError:
        return Attempt([], Counter(refused=1), 0)
    wrong = problems(case)
    counts: Counter[str] = Counter({values["fault"][0].partition(":")[0]: 1})
    judged = {each.claim.name for each in case.run.judgements}.intersection(CLAIMS)
    counts["promised"] += bool(judged)
    counts["waiting"] += bool(case.summary["waiting_nodes"])
    if not timed and number % ON_HOSTS == 0:
        there = case.but(driver="local", ranks_per_host=3).run
        counts["on hosts"] += 1
        if there.summary["journal_hash"] != case.summary["journal_hash"]:
            wrong.append("another history over hosts")
    return attempt_of(f"{number}: {values}", wrong, counts)


def problems(case: Any) -> list[str]:
    """Return the claims about the end of a run that fail, and waiting nodes that the run says nothing about."""
    from coordinator.results.claims import Verdict

    found = [
        f"{each.claim.name} is {each.measured} and not {each.claim.relation} {each.claim.predicted}"
        for each in case.run.judgements
        if each.claim.name in CLAIMS and each.verdict is not Verdict.HOLDS
    ]
    if case.summary["waiting_nodes"] and not case.summary.get("waiting"):
        found.append("nodes wait, and the run does not say for what")
    return found


def by_hand(budget: Budget, number: int) -> Attempt:
    """Run one broadcast down one tree while links are down, and compare every arrival and the bound with figures by hand."""
    from tests.helpers.scenarios import Case
    from tests.helpers.stop_and_wait import LONGEST_BACK_OFF, arrivals

    chance = random.Random(f"{budget.seed}/{number}/by hand")
    network, _, algorithm = TREES[number % len(TREES)].partition(" ")
    after, attempts = chance.randint(2, 6), 20
    back_off = chance.random() < 0.4
    line = f"{network} broadcast {algorithm} reliable=true retransmit_after={after} seed={number}"
    case = Case(line, back_off=back_off)
    label = case.plan.topology.label
    # The tree as data: without faults every node has one new arrival.
    rows = case.journal.filter(pl.col("outcome") == "first").select("sender", "receiver").iter_rows()
    parents = {label(receiver): label(sender) for sender, receiver in rows}
    outages: dict[tuple[str, str], range] = {}
    faults = []
    for child in chance.sample(sorted(parents), chance.randint(1, 4)):
        first = chance.randint(1, 9)
        last = chance.randint(first, LATEST)
        outages[parents[child], child] = range(first, last + 1)
        faults.append(f"down:{parents[child]}>{child}@{first}-{last}")
    steps = arrivals(parents, outages, after, back_off=back_off)
    broken = case.but(*faults)
    new = broken.journal.filter(pl.col("outcome") == "first").select("receiver", "step").iter_rows()
    found = {label(receiver): step for receiver, step in new}
    wrong = [] if found == steps else [f"arrivals in {found}, by hand {steps}"]
    over = max(outage.stop for outage in outages.values())
    settling = max(0, max(steps.values()) - over + 1)
    # One segment crosses a link for each level of the tree after the longest time-out.
    longest = after * (min(2 ** (attempts - 1), LONGEST_BACK_OFF) if back_off else 1)
    levels = max(arrivals(parents, {}, after, back_off=back_off).values())
    # Nothing is claimed about faults that begin after the last acknowledgement of a run without faults.
    late = all(outage.start > levels + 1 for outage in outages.values())
    bound = None if late else longest + levels
    stated = (broken.summary["settling_steps"], broken.predictions.get(("settling_steps", "<=")))
    if stated != (settling, bound) or (bound is not None and settling > bound):
        wrong.append(f"settling steps and bound {stated}, by hand {(settling, bound)}")
    return attempt_of(f"{number}: {line} {' '.join(faults)}", wrong + problems(broken))


def run_section(budget: Budget) -> Iterator[Row]:
    """Yield runs under both clocks, and runs over wrong links."""
    for timed, whole, sample in ((False, 6000, 60), (True, 1500, 24)):
        row = Row(f"faults that end, {'timed' if timed else 'in lock-step'}")
        counts = row.run_all(
            partial(attempt, budget, timed), range(budget.times(whole, sample)), processes=2, progress=200
        )
        row.tell(counts, ("promised", "waiting", "on hosts", "refused"))
        row.require(counts, ("promised", "waiting"), "no run was")
        yield row
    row = Row("one segment down one tree, by hand")
    row.run_all(partial(by_hand, budget), range(budget.times(2000, 40)), processes=2, progress=200)
    yield row

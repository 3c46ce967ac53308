"""A hundred scenarios, every driver, twice, with reordered and delayed events: one journal hash each.

The processes are patched from outside: links are read in another order and at another time, packets leave in another
order, ranks of a host are woken in another order, the coordinator is delayed. Each process reports every kind of
disturbance on its standard error once; a kind that never took effect is a problem.
"""

import functools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from stress_tests.common import DEADLINE_SECONDS, Attempt, Budget, Experiment, Row, Say, wrap

SCENARIOS = 100
LAYOUTS: dict[str, tuple[str, ...]] = {
    "memory": ("--driver", "memory"),
    "one host": ("--ranks-per-host", "1000"),
    "several hosts": ("--ranks-per-host", "3"),
    "one process per rank": ("--ranks-per-host", "1"),
}
NETWORKS = ("star:3", "star:4", "hypercube:2", "hypercube:3", "hypercube:4", "ej:1+2", "ej:2+2")
DISTURBANCES = ("events", "late", "packets", "ranks", "coordinator")


@functools.cache
def report(disturbance: str) -> None:
    """Report a disturbance once per process; not through the log: each host would have to import it."""
    os.write(2, _report_of(disturbance).encode() + b"\n")


def _report_of(disturbance: str) -> str:
    return json.dumps({"event": "disturbed", "what": disturbance})


def scenarios(seed: int, count: int) -> list[list[str]]:
    """Return random small scenarios of every kind, as command-line arguments; the planner accepts them."""
    from coordinator.planning.plan import make_plan
    from coordinator.scenario.model import make_scenario
    from emunode.algorithms.registry import algorithms
    from emunode.errors import EmulatorError
    from emunode.model import Collective
    from emunode.topologies.registry import parse_topology

    draw = random.Random(seed)
    found: dict[tuple[str, ...], None] = {}
    while len(found) < count:
        topology = parse_topology(draw.choice(NETWORKS))
        collective = draw.choice([one for one in Collective if algorithms(topology.family, one)])
        entry = draw.choice(list(algorithms(topology.family, collective).values()))
        values: dict[str, Any] = {
            "topology": topology.name,
            "collective": str(collective),
            "algorithm": entry.name,
            "port_model": str(draw.choice(entry.port_models)),
            "messages": draw.randint(1, 3),
            "segments": draw.randint(1, 3),
            "seed": draw.randint(0, 99),
            "redundancy": draw.choice((1, 1, 2, 3)),
        }
        if collective not in (Collective.ALLGATHER, Collective.ALLTOALL):
            values["source"] = topology.label(draw.randrange(topology.order))
        faults = []
        for rank in draw.sample(range(topology.order), draw.randint(0, 3)):
            label, other = topology.label(rank), topology.label(topology.neighbour(rank, 0))
            step, link = draw.randint(1, 5), f"{label}~{other}"
            kinds = (f"crash:{label}@{step}", f"hang:{label}@{step}-{step + 2}", f"loss:{link}:0.5")
            faults.append(draw.choice((*kinds, f"delay:{link}:1", f"duplicate:{link}:1")))
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
        try:
            make_plan(make_scenario({**values, "fault": faults, "driver": "memory"}))
        except EmulatorError:
            continue
        found[*arguments, *(f"--fault={fault}" for fault in faults)] = None
    return [list(arguments) for arguments in found]


def disorder(seed: int, _say: Say) -> None:
    """Reorder and delay events of this coordinator and, through it, of its hosts."""
    from coordinator.networks import control_channel
    from coordinator.networks.launchers import local

    draw = random.Random(seed)

    def delay(_streams: Any, *_: float) -> None:
        if draw.random() < 0.05:
            report("coordinator")
            time.sleep(draw.random() * 0.005)

    wrap(control_channel.FramedStreams, "poll", before=delay)
    popen = local.subprocess.Popen

    def disordered(command: list[str], *rest: Any, **options: Any) -> Any:
        at = command.index("-m")
        program = f"import sys; from stress_tests import determinism; sys.exit(determinism.host({seed}, sys.argv[1:]))"
        return popen([*command[:at], "-c", program, *command[at + 2 :]], *rest, **options)

    local.subprocess.Popen = disordered


def host(seed: int, arguments: list[str]) -> int:
    """Run `emunode` with reordered and delayed events."""
    from emunode.__main__ import main
    from emunode.host import step_engine
    from emunode.net.framed_streams import FramedStreams

    draw = random.Random(seed)
    send_all = FramedStreams.send_all

    class ShuffledPoller:
        """An epoll that returns events in random order, a few at a time."""

        def __init__(self, real: Any) -> None:
            self._real = real

        def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
            events: list[tuple[int, int]] = self._real.poll(timeout, draw.choice((1, 2, 5, most)))
            if len(events) > 1:
                report("events")
                draw.shuffle(events)
            return events

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    def delay(streams: FramedStreams, *_: float) -> None:
        if not isinstance(streams._epoll, ShuffledPoller):
            streams._epoll = ShuffledPoller(streams._epoll)
        if draw.random() < 0.02:
            report("late")
            time.sleep(draw.random() * 0.003)

    def send_shuffled(self: FramedStreams, frames: Iterable[tuple[int, bytes]]) -> None:
        pairs = list(frames)
        if len({fd for fd, _ in pairs}) == len(pairs) > 1:
            report("packets")
            draw.shuffle(pairs)
        send_all(self, pairs)

    def shuffle_ranks(values: Iterable[Any], **options: Any) -> list[Any]:
        """Return replacement of `sorted` that shuffles the ranks to be woken."""
        found = sorted(values, **options)
        if isinstance(values, set | frozenset) and len(found) > 1 and all(type(value) is int for value in found):
            report("ranks")
            draw.shuffle(found)
        return found

    wrap(FramedStreams, "poll", before=delay)
    FramedStreams.send_all = send_shuffled
    step_engine.sorted = shuffle_ranks
    return main(arguments)


def run_everywhere(budget: Budget, chosen: list[list[str]], number: int) -> Attempt:
    """Run one scenario twice on every driver; counts the runs with each disturbance."""
    hashes: dict[str, str] = {}
    disturbed: Counter[str] = Counter()
    wrong = []
    scenario = " ".join(chosen[number])
    for turn, (layout, flags) in enumerate((*LAYOUTS.items(), *LAYOUTS.items())):
        folder = budget.scratch / f"determinism-{number}-{turn}"
        seed = budget.seed + 2 * number + turn // len(LAYOUTS)
        with Experiment(folder, ("run", *chosen[number], *flags), partial(disorder, seed)) as run:
            status = run.wait(DEADLINE_SECONDS)
            summaries = run.summaries()
            if status is None or not summaries:
                wrong.append(f"{scenario}, {layout}: status {status}: {run.stderr()[-300:]}")
                continue
            hashes[f"{layout}, run {turn}"] = summaries[0]["journal_hash"]
            (log,) = folder.glob("runs/*/2*/log.jsonl")
            output = run.stderr() + log.read_text()
            disturbed.update(what for what in DISTURBANCES if _report_of(what) in output)
    if len(set(hashes.values())) > 1:
        wrong.append(f"{scenario}: {hashes}")
    return Attempt(wrong, disturbed, len(hashes))


def run_section(budget: Budget) -> Iterator[Row]:
    """Run all scenarios, or a sample."""
    row = Row("equal hashes for all drivers, orders and delays")
    chosen = scenarios(budget.seed, budget.times(SCENARIOS, 3))
    disturbed = row.run_all(partial(run_everywhere, budget, chosen), range(len(chosen)), progress=10)
    row.wrong += [f"no run was disturbed by {what}" for what in DISTURBANCES if not disturbed[what]]
    often = ", ".join(f"{what} {disturbed[what]}" for what in DISTURBANCES)
    row.note = f"{len(chosen)} scenarios x {len(LAYOUTS)} drivers x 2; runs disturbed: {often}"
    yield row

"""A hundred scenarios, every driver, twice, in disorder: one journal hash each.

Disorder is added from outside, in a fork of this process, and nothing in the product knows of it: links are read in
another order and at another time, packets leave in another order, ranks of a host are woken in another order, the
coordinator dawdles. Each process says on its standard error, once, that a disturbance took place; one that took place
nowhere is a finding, for then nothing was tried.
"""

import functools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from stress_tests.common import Budget, Experiment, Row, each, preload

SCENARIOS = 100
DEADLINE_SECONDS = 120.0
LAYOUTS: dict[str, tuple[str, ...]] = {
    "memory": ("--driver", "memory"),
    "one host": ("--ranks-per-host", "1000"),
    "several hosts": ("--ranks-per-host", "3"),
    "a process a rank": ("--ranks-per-host", "1"),
}
DISTURBANCES = ("events", "late", "packets", "ranks", "dawdling")


@functools.cache
def tell(disturbance: str) -> None:
    """Say, once in a process, that something was disturbed; not through the log, which each host would have to import."""
    os.write(2, json.dumps({"event": "disturbed", "what": disturbance}).encode() + b"\n")


def told(text: str) -> set[str]:
    """What was disturbed, by what processes wrote."""
    return {what for what in DISTURBANCES if json.dumps({"event": "disturbed", "what": what}) in text}


def scenarios(seed: int, count: int) -> list[list[str]]:
    """Small scenarios of every kind, as arguments; drawn by Hypothesis, and each of them can be planned."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    from coordinator.planning.plan import make_plan
    from coordinator.scenario.model import make_scenario
    from emunode.algorithms.registry import algorithms
    from emunode.errors import EmulatorError
    from emunode.model import Collective
    from emunode.topologies.registry import parse_topology

    networks = ("star:3", "star:4", "hypercube:2", "hypercube:3", "hypercube:4", "ej:1+2", "ej:2+2")
    found: dict[tuple[str, ...], None] = {}

    @seeded(seed)
    @settings(
        max_examples=8 * count,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        topology = parse_topology(data.draw(st.sampled_from(networks)))
        collectives = [one for one in Collective if algorithms(topology.family, one)]
        collective = data.draw(st.sampled_from(collectives))
        entry = data.draw(st.sampled_from(list(algorithms(topology.family, collective).values())))
        values: dict[str, Any] = {
            "topology": topology.name,
            "collective": str(collective),
            "algorithm": entry.name,
            "port_model": str(data.draw(st.sampled_from(entry.port_models))),
            "messages": data.draw(st.integers(1, 3)),
            "segments": data.draw(st.integers(1, 3)),
            "seed": data.draw(st.integers(0, 99)),
            "redundancy": data.draw(st.sampled_from((1, 1, 2, 3))),
        }
        if collective not in (Collective.ALLGATHER, Collective.ALLTOALL):
            values["source"] = topology.label(data.draw(st.integers(0, topology.order - 1)))
        ranks = data.draw(st.lists(st.integers(0, topology.order - 1), max_size=3, unique=True))
        kinds = data.draw(st.lists(st.sampled_from(("crash", "hang", "loss", "delay", "duplicate")), max_size=3))
        faults = []
        for rank, kind in zip(ranks, kinds, strict=False):
            label, other = topology.label(rank), topology.label(topology.neighbour(rank, 0))
            step = data.draw(st.integers(1, 5))
            where = {"crash": f"{label}@{step}", "hang": f"{label}@{step}-{step + 2}", "loss": f"{label}~{other}:0.5"}
            faults.append(f"{kind}:{where.get(kind, f'{label}~{other}:1')}")
        values["fault"] = faults
        try:
            make_plan(make_scenario(values | {"driver": "memory"}))
        except EmulatorError:
            return
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in values.items() if name != "fault"]
        found.setdefault((*arguments, *(f"--fault={fault}" for fault in faults)))

    collect()
    return [list(one) for one in list(found)[:count]]


def disorder(seed: int, _say: Callable[[str], None]) -> None:
    """Let this coordinator and, through it, its hosts do things in another order and at another time."""
    from coordinator.networks import control_channel as control
    from coordinator.networks.launchers import local

    draw = random.Random(seed)
    carry = control.FramedStreams.poll_until_idle

    def dawdle(self: Any) -> None:
        if draw.random() < 0.05:
            tell("dawdling")
            time.sleep(draw.random() * 0.005)
        carry(self)

    control.FramedStreams.poll_until_idle = dawdle  # type: ignore[method-assign]
    popen = local.subprocess.Popen

    def disordered(command: list[str], *rest: Any, **options: Any) -> Any:
        at = command.index("-m")
        program = f"import sys; from stress_tests import determinism; sys.exit(determinism.host({seed}, sys.argv[1:]))"
        return popen([*command[:at], "-c", program, *command[at + 2 :]], *rest, **options)

    local.subprocess.Popen = disordered  # type: ignore[misc,assignment]


def host(seed: int, arguments: list[str]) -> int:
    """Be `emunode` with disorder in its shells."""
    from emunode.__main__ import main
    from emunode.host import step_engine as shell
    from emunode.net import framed_streams as links

    draw = random.Random(seed)
    poll, send_all = links.FramedStreams.poll, links.FramedStreams.send_all

    class Shuffled:
        """An epoll that tells of events in any order, a few at a time."""

        def __init__(self, real: Any) -> None:
            self._real = real

        def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
            events: list[tuple[int, int]] = self._real.poll(timeout, draw.choice((1, 2, 5, most)))
            if len(events) > 1:
                tell("events")
                draw.shuffle(events)
            return events

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    def late_poll(self: links.FramedStreams, seconds: float = 0.0) -> bool:
        if not isinstance(self._epoll, Shuffled):
            self._epoll = Shuffled(self._epoll)  # type: ignore[assignment]
        if draw.random() < 0.02:
            tell("late")
            time.sleep(draw.random() * 0.003)
        return poll(self, seconds)

    def out_of_order(self: links.FramedStreams, frames: Iterable[tuple[int, bytes]]) -> None:
        pairs = list(frames)
        if len({fd for fd, _ in pairs}) == len(pairs) > 1:
            tell("packets")
            draw.shuffle(pairs)
        send_all(self, pairs)

    links.FramedStreams.poll = late_poll  # type: ignore[method-assign]
    links.FramedStreams.send_all = out_of_order  # type: ignore[method-assign]
    shell.sorted = functools.partial(_any_order, draw)  # type: ignore[attr-defined]
    return main(arguments)


def _any_order(draw: random.Random, values: Iterable[Any], **options: Any) -> list[Any]:
    """`sorted`, but in any order where it is ranks that are to be woken."""
    found = sorted(values, **options)
    if isinstance(values, set | frozenset) and len(found) > 1 and all(type(value) is int for value in found):
        tell("ranks")
        draw.shuffle(found)
    return found


def try_all(budget: Budget, chosen: list[list[str]], number: int) -> tuple[int, list[str], Counter[str]]:
    """One scenario on every driver, twice; how many runs, what is wrong, and in how many what was disturbed."""
    hashes: dict[str, str] = {}
    disturbed: Counter[str] = Counter()
    wrong = []
    for layout, flags in LAYOUTS.items():
        for again in range(2):
            name = f"{layout}, {'again' if again else 'once'}"
            seed = budget.seed + 2 * number + again
            folder = budget.scratch / f"determinism-{number}-{layout.replace(' ', '-')}-{again}"
            run = Experiment(folder, ("run", *chosen[number], *flags), partial(disorder, seed))
            status = run.wait(DEADLINE_SECONDS)
            summaries = run.summaries()
            if status is None or not summaries:
                wrong.append(f"{' '.join(chosen[number])}, {name}: status {status}: {run.stderr()[-300:]}")
            else:
                hashes[name] = summaries[0]["journal_hash"]
                (log,) = folder.glob("runs/*/2*/log.jsonl")
                disturbed.update(told(run.stderr() + log.read_text()))
            run.close(keep=False)
    if len(set(hashes.values())) > 1:
        wrong.append(f"{' '.join(chosen[number])}: {hashes}")
    return len(hashes), wrong, disturbed


def run_section(budget: Budget) -> list[Row]:
    """Scenarios by drivers by two."""
    preload()
    row = Row("determinism", "one hash, whatever the driver, order and delay")
    chosen = scenarios(budget.seed, budget.times(SCENARIOS, 3))
    disturbed: Counter[str] = Counter()
    for tried, wrong, how in each(partial(try_all, budget, chosen), range(len(chosen))):
        row.tried += tried
        row.wrong += wrong
        disturbed += how
        for one in wrong:
            print(f"  determinism: {one}", flush=True)
        if row.tried % 80 < tried:
            print(f"  determinism: {row.tried} runs, {len(row.wrong)} wrong", flush=True)
    row.wrong += [f"no run was disturbed in its {what}" for what in DISTURBANCES if not disturbed[what]]
    often = ", ".join(f"{what} {disturbed[what]}" for what in DISTURBANCES)
    row.note = f"{len(chosen)} scenarios x {len(LAYOUTS)} drivers x 2; runs disturbed: {often}"
    return [row]

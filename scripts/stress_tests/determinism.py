"""A hundred recorded scenarios, every driver, twice, with reordered and delayed events: each has the recorded hash.

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
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from stress_tests.common import DEADLINE_SECONDS, Attempt, Budget, Experiment, Row, Say, lock_step_runs, words_of, wrap
from tests.helpers.command_line import fields

SCENARIOS = 100
LAYOUTS: dict[str, tuple[str, ...]] = {
    "memory": ("--driver", "memory"),
    "one host": ("--ranks-per-host", "1000"),
    "several hosts": ("--ranks-per-host", "3"),
    "one process per rank": ("--ranks-per-host", "1"),
}
DISTURBANCES = ("events", "late", "packets", "ranks", "coordinator")


@functools.cache
def report(disturbance: str) -> None:
    """Report a disturbance once per process; not through the log: each host would have to import it."""
    os.write(2, _report_of(disturbance).encode() + b"\n")


def _report_of(disturbance: str) -> str:
    return json.dumps({"event": "disturbed", "what": disturbance})


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


def run_everywhere(budget: Budget, chosen: Sequence[tuple[str, str]], number: int) -> Attempt:
    """Run one scenario twice on every driver; counts the runs with each disturbance."""
    disturbed: Counter[str] = Counter()
    wrong = []
    line, expected = chosen[number]
    for turn, (layout, flags) in enumerate((*LAYOUTS.items(), *LAYOUTS.items())):
        folder = budget.scratch / f"determinism-{number}-{turn}"
        seed = budget.seed + 2 * number + turn // len(LAYOUTS)
        with Experiment(folder, ("run", *words_of(fields(line)), *flags), partial(disorder, seed)) as run:
            status = run.wait(DEADLINE_SECONDS)
            summaries = run.summaries()
            if status is None or not summaries:
                wrong.append(f"{line}, {layout}: status {status}: {run.stderr()[-300:]}")
                continue
            if (found := summaries[0]["journal_hash"]) != expected:
                wrong.append(f"{line}, {layout}, run {turn}: {found}, recorded is {expected}")
            (log,) = folder.glob("runs/*/2*/log.jsonl")
            output = run.stderr() + log.read_text()
            disturbed.update(what for what in DISTURBANCES if _report_of(what) in output)
    return Attempt(wrong, disturbed, 2 * len(LAYOUTS))


def run_section(budget: Budget) -> Iterator[Row]:
    """Run scenarios that the seed chooses, or a sample of them."""
    row = Row("recorded hashes for all drivers, orders and delays")
    chosen = random.Random(budget.seed).sample(lock_step_runs(), budget.times(SCENARIOS, 3))
    disturbed = row.run_all(partial(run_everywhere, budget, chosen), range(len(chosen)), progress=10)
    row.require(disturbed, DISTURBANCES, "no run was disturbed by")
    row.tell(disturbed, DISTURBANCES)
    yield row

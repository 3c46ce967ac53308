"""Several runs by the Python API in one program, beside as many commands.

Commands: one process per run; each imports everything and writes a run directory. Program: one process that imports
`coordinator`, runs the same scenarios in memory and reads their verdicts.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.commands import coordinator_run
from benchmarks.interleaved import interleave
from benchmarks.record import Options, Row, Section
from benchmarks.subprocesses import run_program

COMMANDS = "commands"
OURS = "program by the Python API"
NETWORKS, SEEDS = ("star:4", "star:5", "star:6"), (1, 2, 3)
WANTED = 4.0
"""Target: a quarter of the time of the commands."""
PROGRAM = """
import sys
import coordinator as tb

for name in sys.argv[1:]:
    net = tb.network(name)
    assert all(net.broadcast("greedy-tree", seed=seed).ok for seed in {seeds})
"""


def commands(networks: Sequence[str]) -> float:
    """Return seconds of one command per network and seed."""
    return sum(
        coordinator_run(name, "greedy-tree", driver="memory", seed=seed).seconds for name in networks for seed in SEEDS
    )


def program(networks: Sequence[str]) -> float:
    """Return seconds of one program with the same runs, its imports included."""
    began = time.perf_counter()
    run_program([sys.executable, "-c", PROGRAM.format(seeds=SEEDS), *networks], seconds=300)
    return time.perf_counter() - began


def rows(options: Options) -> Iterator[Row]:
    """Yield the time of the program beside that of the commands."""
    networks = NETWORKS[:1] if options.quick else NETWORKS
    turns = max(1, options.turns // 2)
    compared = interleave(partial(commands, networks), {OURS: partial(program, networks)}, turns, times=True)
    subject = f"{len(networks) * len(SEEDS)} runs of greedy-tree in memory, {', '.join(networks)}"
    yield Row(subject, COMMANDS, compared.baseline, "s")
    value, share = compared.scores[OURS]
    yield Row(subject, OURS, value, "s", share, COMMANDS, at_least=None if options.quick else WANTED)


SECTION = Section("runs by the Python API in one program, beside as many commands", rows, seconds=60)

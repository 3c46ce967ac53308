"""The command line of the project, run as a user would, with what it took."""

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.memory import Memory, Peak, descendants
from benchmarks.subprocesses import ProgramError, run_program


@dataclass(frozen=True)
class Run:
    """What one `coordinator run` said and took."""

    summary: dict[str, object]
    seconds: float
    """From its start to its end, everything written."""
    starting: float
    """Of these, the first ones: the interpreter, imports and the plan, until hosts are started."""
    memory: Memory

    def number(self, key: str) -> float:
        """A number of the summary."""
        value = self.summary[key]
        assert isinstance(value, int | float), key
        return float(value)

    @property
    def after_ready(self) -> float:
        """Seconds from when the network was up until the command's end."""
        return self.seconds - self.starting - self.number("setup_seconds")

    @property
    def link_ends(self) -> float:
        """Link ends that came up."""
        return 2 * self.number("links_opened")


def coordinator_run(topology: str, algorithm: str, *, seconds: float = 600, **flags: object) -> Run:
    """Run a scenario by the command line; ProgramError when it is refused, fails, or a claim does not hold."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in {"collective": "broadcast", **flags}.items()]
    command = [sys.executable, "-m", "coordinator", "run", "--topology", topology, "--algorithm", algorithm, *words]
    with TemporaryDirectory(prefix="bench-") as folder, Peak(_own_children) as peak:
        began, clock = time.perf_counter(), time.time()
        answer = run_program([*command, "--json", "--out", Path(folder) / "run"], seconds=seconds)
        spent = time.perf_counter() - began
        # what is written last before hosts are started
        starting = (Path(folder) / "run" / "scenario.toml").stat().st_mtime - clock
    summary = json.loads(answer)
    if summary["verdict"] != "holds":
        raise ProgramError(f"{topology}: the verdict is {summary['verdict']}")
    return Run(summary, spent, starting, peak.most)


def _own_children() -> list[int]:
    """Everything that this process started and that is still there."""
    return descendants(os.getpid())[1:]

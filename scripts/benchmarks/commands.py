"""Run the command line of the project as a user would, and measure time and memory."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.memory import Memory, Peak, descendants
from benchmarks.subprocesses import ProgramError, run_program


@dataclass(frozen=True)
class Run:
    """Summary, time and memory of one `coordinator run`."""

    summary: dict[str, object]
    seconds: float
    """From the start of the command to its end, all files written."""
    starting: float
    """Seconds before hosts are started: interpreter, imports, plan."""
    memory: Memory

    def number(self, key: str) -> float:
        """Return a number of the summary."""
        value = self.summary[key]
        assert isinstance(value, int | float), key
        return float(value)

    @property
    def after_ready(self) -> float:
        """Seconds from the completed set-up to the end of the command."""
        return self.seconds - self.starting - self.number("setup_seconds")

    @property
    def link_ends(self) -> float:
        """Number of opened link ends."""
        return 2 * self.number("links_opened")


def coordinator_run(topology: str, algorithm: str, *, seconds: float = 600, **flags: object) -> Run:
    """Run a scenario by the command line; raises ProgramError unless it succeeds with the verdict `holds`."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in {"collective": "broadcast", **flags}.items()]
    command = [sys.executable, "-m", "coordinator", "run", "--topology", topology, "--algorithm", algorithm, *words]
    with TemporaryDirectory(prefix="bench-") as folder, Peak(descendants) as peak:
        began, clock = time.perf_counter(), time.time()
        answer = run_program([*command, "--json", "--out", Path(folder) / "run"], seconds=seconds)
        spent = time.perf_counter() - began
        # scenario.toml is the last file written before hosts are started
        starting = (Path(folder) / "run" / "scenario.toml").stat().st_mtime - clock
    summary = json.loads(answer)
    if summary["verdict"] != "holds":
        raise ProgramError(f"{topology}: the verdict is {summary['verdict']}")
    return Run(summary, spent, starting, peak.most)

"""The traffic of any MPI program, by the profiles that Open MPI writes when the program ends."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coordinator.annexes.mpi.installed import find_library
from coordinator.annexes.mpi.judge import MOST_RANKS
from coordinator.annexes.mpi.launch import network_of, run_mpi
from coordinator.annexes.mpi.traffic import TrafficTable, read_profiles
from coordinator.history.run_directory import temporary_folder
from emunode.errors import ScenarioError

PROFILE: Final = "profile"


@dataclass(frozen=True)
class ProgramTraffic:
    """The messages of a program; `reason` says why nothing was counted."""

    program: str
    network: str
    table: TrafficTable | None
    reason: str = ""


def measure_program(
    program: str,
    ranks: int,
    mpirun: Path | None = None,
    *,
    open_ports: bool = False,
    time_limit: float = 60.0,
    echo: Callable[[str], object] | None = None,
) -> ProgramTraffic:
    """Run a command line on all ranks, and read its traffic: messages of the program apart from those of collectives.

    Partners are ranks of the world, also in other communicators. `echo` receives the output of the program.
    ScenarioError for a command line that cannot be split and for a number of ranks that is too large.
    """
    try:
        words = shlex.split(program)
    except ValueError as error:
        raise ScenarioError("program", program, f"a command line: {error}") from None
    if not words:
        raise ScenarioError("program", program, "a command line, such as 'python train.py'")
    if not 2 <= ranks <= MOST_RANKS:
        raise ScenarioError("ranks", ranks, f"a whole number from 2 to {MOST_RANKS}")
    library = find_library(mpirun)
    network = network_of(open_ports)
    with temporary_folder() as folder:
        settings = {
            # 2: messages of the library itself are counted apart.
            "pml_monitoring_enable": 2,
            "pml_monitoring_enable_output": 3,
            "pml_monitoring_filename": str(folder / PROFILE),
        }
        # The process between: a rank must not outlive a judge that is killed.
        ranked = [sys.executable, "-P", "-m", "coordinator.annexes.mpi.enter", "shared", "0", *words]
        command = library.command(ranks, folder, ranked, settings)
        ended = run_mpi(library, command, folder, network, time_limit, lambda: None, echo)
        if ended.timed_out:
            return ProgramTraffic(program, network, None, f"the program did not end within {time_limit:g} s")
        if ended.status:
            return ProgramTraffic(program, network, None, ended.reason)
        try:
            table = read_profiles([folder / f"{PROFILE}.{rank}.prof" for rank in range(ranks)])
        except FileNotFoundError as error:
            name = Path(error.filename).name
            reason = f"{name} was not written: the program used no MPI, or another library"
            return ProgramTraffic(program, network, None, reason)
        except (OSError, ValueError) as error:
            return ProgramTraffic(program, network, None, f"the profiles cannot be read: {error}")
    return ProgramTraffic(program, network, table)

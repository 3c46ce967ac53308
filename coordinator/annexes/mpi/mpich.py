"""MPICH, experimental: its messages are counted where they leave libmpi for UCX, by a preloaded library.

MPICH has no counters of messages. Its wheel reaches UCX through a library of its own, whose functions the preloaded one
takes the place of. Algorithms are chosen by environment variables, so each one needs a start of its own. No rules are
declared: messages are compared with the rules of Open MPI, and results with arithmetic.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coordinator.annexes.mpi.library import MpiLibrary
from emunode.errors import RunError

SPY: Final = Path(__file__).with_name("spy.c")
COMPILE_SECONDS: Final = 60
COUNTED_MPICH: Final[Mapping[str, str]] = {
    # Between ranks of one machine too: messages by shared memory bypass UCX otherwise.
    "MPIR_CVAR_NOLOCAL": "1",
    "MPIR_CVAR_CH4_NETMOD": "ucx",
    "MPIR_CVAR_DEVICE_COLLECTIVES": "none",
    "UCX_TLS": "sm,self",
}
"""Variables that lead every message through the counted functions."""


@dataclass(frozen=True)
class Mpich(MpiLibrary):
    """An installation of MPICH, and the Python that runs the measuring program."""

    has_rules = False
    files = ("libmpi.so", "libmpi.so.12", "libmpich.so.12")
    loaded_as = "libmpi.so.12"

    def prepare(self, folder: Path) -> None:
        """Compile the counting library into a folder; RunError without a C compiler."""
        super().prepare(folder)
        command = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(folder / "spy.so"), str(SPY), "-ldl"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_SECONDS)
        except FileNotFoundError:
            raise RunError("counting the messages of MPICH needs gcc") from None
        except subprocess.SubprocessError as error:
            raise RunError(f"the library that counts the messages of MPICH cannot be compiled: {error}") from None

    def command(self, ranks: int, folder: Path, program: Sequence[str], settings: Mapping[str, object]) -> list[str]:
        variables = {"LD_PRELOAD": str(folder / "spy.so"), **COUNTED_MPICH, **settings}
        flags = [text for name, value in variables.items() for text in ("-genv", name, str(value))]
        return [str(self.mpirun), "-n", str(ranks), *flags, *program]

    def choice(self, collective: str, algorithm: str | None) -> Mapping[str, object]:
        return {} if algorithm is None else {f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": algorithm}

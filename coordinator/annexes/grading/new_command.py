"""`coordinator new`: files to start from."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.annexes.grading.scaffold import algorithm_text, network_text
from coordinator.cli.output import JsonFlag, as_command
from emunode.errors import ScenarioError
from emunode.model import Collective
from emunode.terminal import print_json, say

FileFlag = Annotated[Path | None, Parameter(help="file to write; the name with underscores and .py in this folder")]


@as_command
def algorithm(
    name: Annotated[str, Parameter(help="name of the algorithm, such as my-tree")],
    *,
    topology: Annotated[str, Parameter(help="family that it is for, such as star, or any")] = "any",
    collective: Annotated[Collective, Parameter(help="collective that it performs")] = Collective.BROADCAST,
    out: FileFlag = None,
    json: JsonFlag = False,
) -> None:
    """Write an algorithm to start from: flooding, or for a reduce a tree. `coordinator check` accepts it.

    An existing file is not overwritten.

    Examples:
      coordinator new algorithm my-tree --topology star
      coordinator new algorithm my-sum --topology hypercube --collective reduce --out sum.py
    """
    path = out or _default_path(name)
    _write(path, algorithm_text(name, topology, collective, path.name), json=json)


@as_command
def topology(
    name: Annotated[str, Parameter(help="name of the family, such as my-ring")],
    *,
    out: FileFlag = None,
    json: JsonFlag = False,
) -> None:
    """Write a family of networks to start from: a ring. `coordinator check` accepts it.

    An existing file is not overwritten.

    Examples:
      coordinator new topology my-ring
      coordinator new topology my-grid --out grid.py
    """
    path = out or _default_path(name)
    _write(path, network_text(name, path.name), json=json)


def _default_path(name: str) -> Path:
    return Path(f"{name.replace('-', '_')}.py")


def _write(path: Path, text: str, *, json: bool) -> None:
    write_new(path, text, f"coordinator check {path}", "grades", json=json)


def write_new(path: Path, text: str, command: str, does: str, *, json: bool) -> None:
    """Write a file to start from, and say what a command does with it; ScenarioError (field `out`) if it exists."""
    if path.suffix != ".py":
        raise ScenarioError("out", str(path), "expected a file name that ends in .py")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ScenarioError("out", str(path), "the file exists; give another name with --out") from None
    if json:
        print_json({"file": str(path)})
    else:
        say(f"{path}: written; `{command}` {does} it")

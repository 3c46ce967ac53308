"""`coordinator new tree`: a file of a spanning tree to start from."""

from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from coordinator.annexes.grading.new_command import write_new
from coordinator.cli.output import JsonFlag, as_command

START: Final = Path(__file__).with_name("start.txt")


@as_command
def tree(
    file: Annotated[Path, Parameter(help="file to write")] = Path("tree.py"),
    *,
    json: JsonFlag = False,
) -> None:
    """Write a spanning tree to start from, in eight lines: the greedy tree of the permutation star graph.

    An existing file is not overwritten.

    Examples:
      coordinator new tree mine.py
      coordinator new tree --json
    """
    text = START.read_text(encoding="utf-8")
    write_new(file, text, f"coordinator run star:4 broadcast --trees {file}", "runs", json=json)

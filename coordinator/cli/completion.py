"""`coordinator --install-completion`: completion of commands, flags and values in bash, zsh, fish and PowerShell."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from coordinator.cli.app import app
from coordinator.cli.output import JsonFlag
from emunode.terminal import print_json, say


def install_completion(
    *,
    # In the order of cyclopts, since it has the same union: `typing` keeps the first of equal unions for a while.
    shell: Annotated[
        Literal["zsh", "bash", "fish", "powershell"] | None, Parameter(help="default: the shell that runs the command")
    ] = None,
    out: Annotated[Path | None, Parameter(help="file to write; default: where the shell looks for completions")] = None,
    startup: Annotated[
        bool,
        Parameter(negative="--no-startup", show_default=False, help="also load the file from the shell's startup file"),
    ] = True,
    json: JsonFlag = False,
) -> None:
    """Install shell completion."""
    written = app.install_completion(shell=shell, output=out, add_to_startup=startup and out is None)
    if json:
        print_json({"written": str(written)})
    else:
        say(written)

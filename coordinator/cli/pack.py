"""`coordinator pack`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.api.runs import Run
from coordinator.cli.documents import print_json
from coordinator.cli.output import JsonFlag, PluginFlag, RunArgument, as_command
from coordinator.cli.verify import warn_unverified
from coordinator.scenario.plugins import load_plugins
from emunode.terminal import say


def pack(
    run: RunArgument,
    file: Annotated[Path, Parameter(help="archive to write, such as run.zip")],
    *,
    plugin: PluginFlag = None,
    json: JsonFlag = False,
) -> int:
    """Write a run into one archive that others can judge.

    The archive is a ZIP file with the scenario, the network, the journal and the faults as text, all claims and
    measured numbers, and a digest of each file. docs/checkers/check_run.py judges it without any code of this program.

    Examples:
      coordinator pack runs/star-4-broadcast-edt run.zip
      coordinator pack runs/star-4-broadcast-edt run.zip --json
    """
    load_plugins(plugin or ())
    stored = Run.read(run)
    warn_unverified([stored.data.path])
    written = stored.pack(file)
    if json:
        print_json({"written": str(written)})
    else:
        say(written, lines=False)
    return 0


pack_command = as_command(pack)

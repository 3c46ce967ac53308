"""`coordinator pack`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.annexes.proofs.certificate_archive import pack_certificate
from coordinator.api.runs import Run
from coordinator.cli.output import JsonFlag, PluginFlag, as_command
from coordinator.cli.verify import warn_unverified
from coordinator.scenario.plugins import load_plugins
from emunode.terminal import print_json, say


@as_command
def pack(
    run: Annotated[
        Path,
        Parameter(help="run directory, a folder of runs/ for its latest run, or the file of a certificate"),
    ],
    file: Annotated[Path, Parameter(help="archive to write, such as run.zip")],
    *,
    plugin: PluginFlag = None,
    json: JsonFlag = False,
) -> int:
    """Write a run or a certificate into one archive that others can judge.

    The archive is a ZIP file with the scenario, the network, the journal and the faults as text, all claims and
    measured numbers, and a digest of each file. `check_run.py` judges it without any code of this program.
    The archive of a certificate has the hops of the run without faults, and runs whose histories it states;
    `check_certificate.py` judges it.

    Examples:
      coordinator pack runs/star-4-broadcast-edt run.zip
      coordinator pack certificate.json certificate.zip
    """
    load_plugins(plugin)
    if run.is_file():
        pack_certificate(run, file)
    else:
        stored = Run.read(run)
        warn_unverified([stored.data.path])
        stored.pack(file)
    if json:
        print_json({"written": str(file)})
    else:
        say(file, lines=False)
    return 0

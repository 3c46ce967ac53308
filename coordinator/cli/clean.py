"""`coordinator clean`."""

from importlib import import_module

from coordinator.cli.documents import print_json
from coordinator.cli.output import JsonFlag, as_command
from coordinator.history.run_directory import remove_abandoned
from coordinator.networks.launchers.records import orphans
from coordinator.scenario.drivers import DRIVERS
from emunode.terminal import say


def clean(*, json: JsonFlag = False) -> None:
    """Remove what killed runs left behind.

    That is unfinished run directories, containers, container networks and jobs of Slurm. Runs in progress are not touched.

    Examples:
      coordinator clean
      coordinator clean --json
    """
    removed = [str(path) for path in remove_abandoned()]
    try:
        for record in orphans():
            # Only here: the Docker client takes 0.2 s to import, and most machines have no containers to remove.
            launcher = import_module(str(DRIVERS[record.driver].launcher))
            removed += launcher.sweep(record)
    finally:  # list the folders that were removed even if the container engine does not answer
        if not json:
            say("\n".join(f"removed {each}" for each in removed) or "nothing to clean")
    if json:
        print_json({"removed": removed})


clean_command = as_command(clean)

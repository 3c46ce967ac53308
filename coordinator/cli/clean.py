"""`coordinator clean`."""

from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.documents import print_json
from coordinator.cli.leftovers import leftovers
from coordinator.cli.output import JsonFlag, as_command
from emunode.errors import RunError
from emunode.terminal import say


@as_command
def clean(
    *,
    everywhere: Annotated[bool, Parameter(help="also of runs in other folders: everything of this user")] = False,
    dry_run: Annotated[bool, Parameter(help="only list what would be removed")] = False,
    json: JsonFlag = False,
) -> None:
    """Remove what killed runs of this folder have left.

    A run belongs to this folder if it was started here, or if its files lie here or in runs/. Removed are unfinished run
    directories and files (.partial-*), temporary folders, token files that `serve` has created, join files in the state
    folder, containers and their networks, and jobs of Slurm. What runs in progress have stays, and so does everything
    that was started on another machine.

    Examples:
      coordinator clean --dry-run
      coordinator clean --everywhere
    """
    every = leftovers()
    chosen = [each for each in every if everywhere or each.here]
    names, problems = [], []
    for each in chosen:
        try:
            names += each.names() if dry_run else each.remove()
        except RunError as error:  # what others have left is removed nevertheless
            problems.append(str(error))
    elsewhere = sum(bool(each.files or each.has_objects) for each in every if each not in chosen)
    if json:
        print_json({"would_remove" if dry_run else "removed": names, "elsewhere": elsewhere})
    else:
        verb = "would remove" if dry_run else "removed"
        for line in [f"{verb} {name}" for name in names] or ["nothing to clean"] * (not problems):
            say(line)
        if elsewhere:
            say(f"{elsewhere} more in other folders: coordinator clean --everywhere --dry-run lists them")
    if problems:
        raise RunError("; ".join(problems))

"""The options of the drivers of clusters, apart from the drivers, so that help texts need not import those."""

import shlex
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from coordinator.scenario.added_options import AddedOptions
from coordinator.scenario.option import Option, OptionGroup
from coordinator.scenario.reach import Reach
from emunode.registry import register

PROGRAM: Final = Reach("it starts programs", lambda _: True)
MACHINES: Final = Reach("it names machines that receive the token of the run", lambda _: True)


def _command(value: str) -> str:
    """Refuse a text that is no command line."""
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise ValueError(f"it is not a command line: {error}") from None
    if not words:
        raise ValueError("expected a command, such as 'srun --partition=p'")
    return value


@register
class ClusterOptions(AddedOptions):
    """Options of hosts on other machines."""

    before = "clock"

    host_file: Annotated[str | None, Option(OptionGroup.PROCESSES, reach=MACHINES)] = Field(
        None, description="file with the machines of the hosts, each with slots=N for N hosts (ssh, mpi)"
    )
    launcher: Annotated[
        Annotated[str, AfterValidator(_command)] | None, Option(OptionGroup.PROCESSES, reach=PROGRAM)
    ] = Field(
        None, description="command that starts hosts, with arguments, such as 'srun --partition=p' (ssh, mpi, slurm)"
    )

"""The scenario of `coordinator run --from RUN@STEP`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from coordinator.api.branches import origin_of
from coordinator.cli.given import texts_of
from coordinator.execution.branch import Origin
from coordinator.scenario.model import OPTIONS, Scenario, make_scenario, plain_values
from coordinator.scenario.named import name_values
from coordinator.scenario.networks import with_absolute_network
from coordinator.scenario.option import OptionGroup
from coordinator.scenario.plugins import load_plugins
from coordinator.scenario.programs import allow_program
from emunode.errors import ScenarioError

OWN: Final = ("fault", "name", "plugin", "program")
"""Options that a branch may state itself, beside the options of processes."""


def branch_from(text: str, words: Sequence[str], flags: Any) -> tuple[Origin, Scenario]:
    """Return the run and the step of RUN@STEP, and the scenario of its branch.

    ScenarioError for options that would change the steps before, and (field `from`) for a run that has no such step.
    """
    path, step = place_from(text)
    if words:
        raise ScenarioError("scenario", " ".join(words), f"a branch has the scenario of {path}; leave it out")
    given = texts_of(flags)
    for name, value in given.items():
        if name not in OWN and OPTIONS[name].group != OptionGroup.PROCESSES:
            raise ScenarioError(
                name,
                value,
                "a branch has the options of its run, except faults, processes and name; leave this one out",
            )
    load_plugins(given.pop("plugin", ()))
    if (program := given.pop("program", None)) is not None:
        allow_program(program)
    origin = origin_of(path, step)
    scenario = origin.branched(given.pop("fault", ()))
    named = with_absolute_network(given, Path.cwd())
    name_values(named)
    return origin, make_scenario(plain_values(scenario) | named)


def place_from(text: str) -> tuple[Path, int]:
    """Return the run directory and the step of RUN@STEP; ScenarioError (field `from`) for anything else."""
    run, _, step = text.rpartition("@")
    if not run or not (step.isascii() and step.isdigit()) or len(step) > 7:
        raise ScenarioError("from", text, "expected RUN@STEP, such as runs/star-4-broadcast-edt@2")
    return Path(run), int(step)

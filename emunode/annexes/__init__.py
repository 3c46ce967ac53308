"""The optional parts of both packages: modules of an annex by their names, and the sentence about a missing annex."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from emunode.errors import ScenarioError


class MissingAnnexError(ScenarioError):
    """The user asked for something that belongs to an annex, and the folder of the annex is not there: exit status 2."""

    def __init__(self, asked: str, annex: str) -> None:
        super().__init__(asked, None, f"belongs to the annex {annex}")
        self.args = (f"{asked} belongs to the annex {annex}, which is not installed",)


SCHEDULE: Final = "schedule"
PROGRAM: Final = "program"
TREES: Final = "trees"
ALGORITHMS: Final[Mapping[str, tuple[str, str]]] = {
    SCHEDULE: ("schedules", "emunode.annexes.schedules.given_schedule:find_given"),
    PROGRAM: ("programs", "emunode.annexes.programs.reductions:find_program"),
    TREES: ("trees", "emunode.annexes.trees.given_trees:find_given_trees"),
}
"""The algorithms whose hops come from outside: their annex, and the function that returns the class for a collective."""

REPAIRED: Final = ("--repair", "repair", "emunode.annexes.repair.rules:make_repaired")
"""Algorithms that go around faults."""
REPAIR_LAYER: Final = ("--repair", "repair", "emunode.annexes.repair.pull:repair_layer")
"""The requests of a rank for what it lacks."""
RELIABLE_LAYER: Final = ("--reliable", "reliable", "emunode.annexes.reliable.layer:ReliableLayer")
"""The reliable ends of the links of a rank."""
AGREEMENT_LAYER: Final = ("--on-failure", "agreement", "emunode.annexes.agreement.layer:AgreementLayer")
"""The part of a rank in an agreement on failures."""
AGREEING_NODE: Final = ("--on-failure", "agreement", "emunode.annexes.agreement.survivor_node:make_agreeing_node")
"""The node of a rank that takes part in an agreement, and may run the collective again."""
NUMBER_PAYLOADS: Final = ("numbers", "emunode.annexes.numbers.payloads:payloads_for")
"""The messages of reductions of real numbers."""


@cache
def is_installed(package: str, annex: str) -> bool:
    """Return whether `package`, `emunode` or `coordinator`, has the folder of an annex."""
    return find_spec(f"{package}.annexes.{annex}") is not None


def load(target: str) -> Any:
    """Import a target, `module:name`, and return what it names."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def from_annex(asked: str, annex: str, target: str) -> Any:
    """Return what a target of an annex names; MissingAnnexError if the annex is not installed."""
    if not is_installed("emunode", annex):
        raise MissingAnnexError(asked, annex)
    return load(target)

"""Every name of the Python API, and every class that authors of plug-ins meet, has an example in its docstring that runs."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Final

import pytest

import coordinator
import emunode.topologies.registry
import emunode.trees
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Claim
from emunode.algorithms.routed_collective import RoutedCollective
from emunode.algorithms.rule import LocalView, Rule
from emunode.algorithms.scheduled_collective import ScheduledCollective
from emunode.algorithms.tree_collective import TreeCollective
from emunode.faults.byzantine import ByzantineFault
from emunode.faults.kinds import KINDS, Fault, LinkFault, NodeFault, RatedFault
from emunode.topologies.base import FAMILIES, CayleyTopology, RegularTopology, Topology, VertexTransitiveTopology
from emunode.topologies.table import TableTopology
from emunode.trees.base import Trees

BASES: Final = (
    Topology, RegularTopology, VertexTransitiveTopology, CayleyTopology, TableTopology, Trees, Fault, NodeFault, LinkFault,
    RatedFault, ByzantineFault, Algorithm, TreeCollective, RoutedCollective, ScheduledCollective, Rule, LocalView, Claim,
)  # fmt: skip
OPTIONS: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def tree_families() -> Iterator[type[Trees]]:
    """Yield every family of trees that can be made: the others are bases."""
    for module in pkgutil.walk_packages(emunode.trees.__path__, "emunode.trees."):
        for each in vars(importlib.import_module(module.name)).values():
            own = isinstance(each, type) and issubclass(each, Trees) and each.__module__ == module.name
            if own and not inspect.isabstract(each):
                yield each


def documented() -> dict[str, object]:
    """Return the objects that need an example, by name."""
    names: dict[str, object] = {f"coordinator.{name}": getattr(coordinator, name) for name in coordinator.__all__}
    built_in = (each for each in (*FAMILIES.values(), *KINDS.values()) if each.__module__.startswith("emunode."))
    return names | {f"{each.__module__}.{each.__name__}": each for each in (*BASES, *built_in, *tree_families())}


DOCUMENTED: Final = documented()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_example_runs(name: str) -> None:
    subject = DOCUMENTED[name]
    module = inspect.getmodule(subject)
    assert module is not None
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(subject, name, module=module, globs=dict(vars(module)))
    assert example.examples, "its docstring has no example"
    report: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=report.append)
    assert not report, "".join(report)


def test_a_wrong_example_is_found() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(optionflags=OPTIONS).run(wrong, out=lambda _: None).failed == 1

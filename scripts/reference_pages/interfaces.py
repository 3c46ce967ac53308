"""The interfaces for extensions: public members of the base classes with their docstrings."""

import inspect
import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from coordinator.features.base import Feature
from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.routed_collective import RoutedCollective
from emunode.algorithms.traits import ListsMessages, PassesFirstArrivals, WaitsForSteps
from emunode.algorithms.tree_collective import OverTrees, TreeCollective
from emunode.topologies.base import Topology
from emunode.trees.base import Trees
from reference_pages.markdown import page

INTERFACES: Final = (
    Topology, Trees, Algorithm, WaitsForSteps, PassesFirstArrivals, ListsMessages, OverTrees, TreeCollective,
    RoutedCollective, Rule, LocalView, Claim, Feature,
)  # fmt: skip


def interfaces_page() -> str:
    """Return one section per base class; abstract members are marked."""
    parts = [
        "Base classes for extensions. Members marked *abstract* must be defined; [extend](../extend/index.md) has examples."
    ]
    for interface in INTERFACES:
        parts += [f"## {interface.__name__}", f"`{interface.__module__}`", *_described(interface)]
        parts.append("\n".join(_entry(name, member) for name, member in _members(interface)))
    return page("Interfaces", *parts)


def _described(interface: type) -> Iterator[str]:
    """Yield the docstring of a class, and its example as a block of code."""
    text, prompt, example = (inspect.getdoc(interface) or "").partition(">>>")
    yield text.rstrip()
    if prompt:
        yield textwrap.indent(prompt + example, "    ")


def _members(interface: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(interface).items():
        described = isinstance(member, property | cached_property | staticmethod | classmethod) or inspect.isfunction(
            member
        )
        if described and not name.startswith("_"):
            yield name, member


def _entry(name: str, member: Any) -> str:
    abstract = " *(abstract)*" if getattr(member, "__isabstractmethod__", False) else ""
    function = getattr(member, "__func__", member)
    signature = str(inspect.signature(function)) if inspect.isfunction(function) else ""
    doc = " ".join((inspect.getdoc(member) or "").split())
    return f"* `{name}{signature}`{abstract}: {doc}" if doc else f"* `{name}{signature}`{abstract}"

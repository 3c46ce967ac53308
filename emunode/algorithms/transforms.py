"""Algorithms that follow from others: the same schedule run backwards in time."""

from typing import TypeVar, cast

from emunode.algorithms.base import Algorithm
from emunode.model import Collective

Kind = TypeVar("Kind", bound=Algorithm)

OPPOSITE = {Collective.BROADCAST: Collective.REDUCE, Collective.SCATTER: Collective.GATHER}
"""The collective that a schedule performs when it is run backwards."""


def derived(forward: type[Kind], class_name: str, description: str, **attributes: object) -> type[Kind]:
    """A subclass of `forward` with other class attributes and its own docstring."""
    # Without `__module__` the class would seem to be defined in this module.
    members = {"__doc__": description, "__module__": forward.__module__, **attributes}
    return cast("type[Kind]", type(class_name, (forward,), members))


def backwards(forward: type[Kind], note: str = "", **attributes: object) -> type[Kind]:
    """The broadcast `forward` run backwards as a reduce, or the scatter as a gather, under the same name.

    What would cross a link in step s crosses it the other way in step T + 1 - s; a reduce folds what comes in into what it
    sends. Turning time round keeps the number of steps, the port model and all loads, cycle by cycle in reverse order, so
    every claim of `forward` holds as it stands. `attributes` override, for example, the citation; `note` is added to the
    docstring.
    """
    collective = OPPOSITE[forward.collective]
    # `BinomialScatter` becomes `BinomialGather`; class names follow the collective.
    class_name = forward.__name__.replace(forward.collective.title(), collective.title())
    forward_doc = (forward.__doc__ or "").strip()
    description = f"The {forward.collective} `{forward.name}` run backwards. {note}".rstrip() + f"\n\n    {forward_doc}"
    # No method is overridden: the generic collectives read `collective` and turn the steps round themselves.
    return derived(forward, class_name, description, collective=collective, **attributes)

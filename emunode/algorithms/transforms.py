"""Algorithms that follow from others: the same schedule run backwards in time, and one schedule after another.

**Backwards.** A segment that would cross a link in step s crosses it the other way in step T + 1 - s. A broadcast becomes
a reduce, a scatter a gather, an allgather a reduce-scatter: a rank receives every item once, so backwards it sends its
partial result once, to the rank that it would have had the item from, and by then all that it folds has come in. The
number of steps, the port model and the traffic stay; the load of a link in one direction becomes the load in the other.

**One after another.** An allreduce is a reduce and then a broadcast of the result, or a reduce-scatter and then an allgather
of the blocks.
"""

from collections.abc import Iterator
from typing import Final, TypeVar, cast

from emunode.algorithms.allreduce import Allreduce
from emunode.algorithms.base import Algorithm, Need
from emunode.algorithms.claims import Claim
from emunode.model import Collective

Kind = TypeVar("Kind", bound=Algorithm)

OPPOSITE: Final = {
    Collective.BROADCAST: Collective.REDUCE,
    Collective.SCATTER: Collective.GATHER,
    Collective.ALLGATHER: Collective.REDUCE_SCATTER,
}
"""The collective that a schedule performs when it is run backwards."""
MIRRORED: Final = ("heaviest_link_segments_per_step", "heaviest_link_bytes_per_step")
"""Metrics with a value for each step; backwards the values are in reverse order."""
FORWARD_ONLY: Final = (
    "senders_per_step", "receivers_per_step", "average_receive_step", "deliveries", "intact_deliveries", "duplicates",
    "relays",
)  # fmt: skip
"""Metrics of arrivals: a schedule that runs backwards has other values."""


def derived(forward: type[Kind], class_name: str, description: str, **attributes: object) -> type[Kind]:
    """Return a subclass of `forward` with other class attributes and its own docstring."""
    # Without `__module__` the class would seem to be defined in this module.
    members = {"__doc__": description, "__module__": forward.__module__, **attributes}
    return cast("type[Kind]", type(class_name, (forward,), members))


def backwards(forward: type[Kind], note: str = "", **attributes: object) -> type[Kind]:
    """Return `forward` run backwards, under the same name: a reduce, a gather or a reduce-scatter.

    The claims of a broadcast or a scatter hold as they stand; the claims of an allgather are turned round where they
    speak of single steps or of arrivals. `attributes` override, for example, the citation; `note` is added to the
    docstring.
    """
    collective = OPPOSITE[forward.collective]
    forward_doc = (forward.__doc__ or "").strip()
    description = f"The {forward.collective} `{forward.name}` run backwards. {note}".rstrip() + f"\n\n    {forward_doc}"
    if collective is Collective.REDUCE_SCATTER:
        attributes = {"claims": lambda algorithm: list(mirrored(algorithm, forward.claims(algorithm))), **attributes}
    # No other method is overridden: the generic collectives read `collective` and turn the steps round themselves.
    return derived(
        forward, _renamed(forward, collective, attributes.get("name")), description, collective=collective, **attributes
    )


def mirrored(algorithm: Algorithm, claims: list[Claim]) -> Iterator[Claim]:
    """Yield the claims of an allgather as claims of the reduce-scatter that `algorithm` makes of it."""
    for claim in claims:
        if claim.name in MIRRORED and isinstance(claim.predicted, tuple):
            yield Claim(claim.name, claim.predicted[::-1], claim.relation, claim.source, claim.derived)
        elif claim.name not in FORWARD_ONLY:
            yield claim
    blocks = len(algorithm.block_owners) * algorithm.spec.messages
    yield Claim(
        "intact_deliveries", blocks, "==", f"{algorithm.citation}: run backwards, every rank receives its block"
    )


def allreduce_of(down: type[Algorithm], up: type[Algorithm] | None = None, **attributes: object) -> type[Allreduce]:
    """Return the allreduce that runs `up` (by default `down` backwards) and then `down`: a broadcast or an allgather.

    It has the name of `down`.
    """
    up = up or backwards(down)
    phases = f"The {up.collective} `{up.name}` and then the {down.collective} `{down.name}`."
    description = f"{phases}\n\n    {(down.__doc__ or '').strip()}"
    members: dict[str, object] = {"up": up, "down": down, "family": down.family, "name": down.name}
    members |= {"citation": down.citation, "port_models": down.port_models, "duplexes": down.duplexes}
    blocks = frozenset({Need.BLOCKS}) if up.collective is Collective.REDUCE_SCATTER else frozenset[Need]()
    needs = (down.needs - {Need.BLOCKS, Need.OPEN_CAPACITY}) | blocks
    members |= {"negative_control": down.traits.negative_control, "needs": needs, "__module__": down.__module__}
    return derived(
        Allreduce, _renamed(down, Collective.ALLREDUCE, attributes.get("name")), description, **(members | attributes)
    )


def _renamed(entry: type[Algorithm], collective: Collective, name: object = None) -> str:
    """Return the class name for another collective: `BinomialScatter` becomes `BinomialGather`; with a `name`, made of
    that.
    """
    other = collective.title().replace("-", "")
    stem = entry.__name__.removesuffix(entry.collective.title())
    return (str(name).title().replace("-", "") if name is not None else stem) + other

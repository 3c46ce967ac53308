"""The protocol of a rank, from the parameters of the run. To add a layer, append its factory to `LAYERS` in its place."""

from collections.abc import Callable
from typing import Final

from emunode.algorithms.base import Algorithm, LocalView
from emunode.annexes import AGREEMENT_LAYER, RELIABLE_LAYER, REPAIR_LAYER, from_annex
from emunode.protocols.base import LOCK_STEP, Durations, Protocol, Stack


def _reliable(algorithm: Algorithm, _view: LocalView, _timing: Durations) -> Protocol | None:
    if algorithm.spec.reliable is None:
        return None
    layer: Protocol = from_annex(*RELIABLE_LAYER)(algorithm.spec.reliable)
    return layer


def _repair(algorithm: Algorithm, view: LocalView, timing: Durations) -> Protocol | None:
    if algorithm.spec.repair is None:
        return None
    layer: Protocol | None = from_annex(*REPAIR_LAYER)(algorithm, view, timing)
    return layer


def _agreement(algorithm: Algorithm, view: LocalView, _timing: Durations) -> Protocol | None:
    settings = algorithm.spec.agreement
    if settings is None:
        return None
    layer: Protocol = from_annex(*AGREEMENT_LAYER)(settings, algorithm.topology, view.rank)
    return layer


# Reliable links come last, next to the ports, so that requests and news are acknowledged and sent again as data are.
# Repair comes first: a segment that was asked for passes the other layers as if the rule had sent it.
LAYERS: Final[list[Callable[[Algorithm, LocalView, Durations], Protocol | None]]] = [_repair, _agreement, _reliable]
"""Makes each layer for one rank, or None if the run has no such layer; from the rule down to the ports."""


def make_protocol(algorithm: Algorithm, view: LocalView, timing: Durations = LOCK_STEP) -> Protocol | None:
    """Return the protocol of a rank, or None for a run without one."""
    layers = [layer for make in LAYERS if (layer := make(algorithm, view, timing)) is not None]
    return Stack(layers) if len(layers) > 1 else layers[0] if layers else None

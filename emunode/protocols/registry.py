"""The protocol of a rank, from the parameters of the run. To add a layer, append its factory to `LAYERS` in its place."""

from collections.abc import Callable
from typing import Final

from emunode.algorithms.base import Algorithm, LocalView
from emunode.protocols.base import Protocol, Stack
from emunode.protocols.reliable import ReliableLayer


def _reliable(algorithm: Algorithm, _view: LocalView) -> Protocol | None:
    return None if algorithm.spec.reliable is None else ReliableLayer(algorithm.spec.reliable)


LAYERS: Final[list[Callable[[Algorithm, LocalView], Protocol | None]]] = [_reliable]
"""Makes each layer for one rank, or None if the run has no such layer; from the rule down to the ports."""


def make_protocol(algorithm: Algorithm, view: LocalView) -> Protocol | None:
    """The protocol of a rank, or None for a run without one."""
    layers = [layer for make in LAYERS if (layer := make(algorithm, view)) is not None]
    return Stack(layers) if len(layers) > 1 else layers[0] if layers else None

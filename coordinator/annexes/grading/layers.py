"""The layers of a submission's confinement; each layer holds or has a reason why not."""

from collections.abc import Callable, Iterator
from enum import StrEnum


class Layer(StrEnum):
    """One kind of protection. The kernel or the machine's settings may lack any of them."""

    LIMITS = "resource limits"
    DESCRIPTORS = "closed descriptors"
    ROOT = "sealed root"
    PROCESSES = "process namespace"
    NETWORK = "network namespace"
    IPC = "IPC namespace"
    OTHER_USER = "other user"
    USER_NAMESPACE = "user namespace"
    CAPABILITIES = "no capabilities"
    LANDLOCK = "Landlock"
    FILTER = "system call filter"
    HOOK = "audit hook"


ALL_LAYERS = tuple(Layer)


class Protection(dict[Layer, str | None]):
    """For each layer None if it holds, otherwise the reason why not; a layer that does not apply is missing."""

    @property
    def held(self) -> list[str]:
        """The layers that hold."""
        return [str(layer) for layer, reason in self._in_order() if reason is None]

    @property
    def missing(self) -> dict[str, str]:
        """The layers that do not hold, with their reasons."""
        return {str(layer): reason for layer, reason in self._in_order() if reason is not None}

    def holds(self, layer: Layer) -> bool:
        """Report whether a layer holds."""
        return layer in self and self[layer] is None

    def _in_order(self) -> Iterator[tuple[Layer, str | None]]:
        return ((layer, self[layer]) for layer in Layer if layer in self)


def failure(work: Callable[[], object]) -> str | None:
    """Do `work`; return the reason of its failure."""
    try:
        work()
    except OSError as error:
        return f"{error.filename or 'the kernel'}: {error.strerror}"
    return None

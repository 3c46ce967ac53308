"""The Python API for programs that use trio: the functions of `coordinator`, as async functions.

    from coordinator import aio as tb

    run = await tb.network("star:4").broadcast("edt", redundancy=3)

Each call runs in a thread, so that other tasks go on meanwhile. Cancelling it ends everything that it started before
`trio.Cancelled` is raised.
"""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import trio

from coordinator.annexes import merged
from coordinator.api import (
    branches,
    campaigns,
    comparisons,
    lists,
    mapping,
    networks,
    sweeps,
    verification,
    watching,
)
from coordinator.api.networks import BaseNetwork, CollectiveMethods, add_collectives
from coordinator.api.runs import Run
from coordinator.api.threads import StoppableCall
from emunode.annexes import load

__all__ = [
    "Network",
    "algorithms",
    "branch",
    "campaign",
    "compare",
    "faults",
    "map",
    "network",
    "sweep",
    "topologies",
    "verify",
    "watch",
]

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def as_async(function: Callable[Arguments, Result]) -> Callable[Arguments, Awaitable[Result]]:
    """Return the async form of a function of the API."""

    @wraps(function)
    async def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return await _in_thread(partial(function, *args, **kwargs))

    return call


async def _in_thread(function: Callable[[], Result]) -> Result:
    work = StoppableCall(function)

    async def run() -> None:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(work.run)
        nursery.cancel_scope.cancel()

    async def stop_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            work.request.stop()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            nursery.start_soon(stop_when_cancelled)
    except BaseExceptionGroup as group:  # of one exception, Cancelled or KeyboardInterrupt
        raise group.exceptions[0] from None
    # After the nursery, which would put an error of the call into a group; of a cancelled call it has raised Cancelled.
    return work.result()


class Network(BaseNetwork, CollectiveMethods[Awaitable[Run]]):
    """A network, with one async method per collective; arguments and errors as of `coordinator.Network`."""

    run = as_async(networks.Network.run)


add_collectives(Network, Network.run)


def _made_by(function: Callable[Arguments, networks.Network]) -> Callable[Arguments, Network]:
    """Return a function that makes the same network with async methods."""

    @wraps(function)
    def make(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Network:
        made = function(*args, **kwargs)
        return Network(made.topology, made.plugins)

    return make


network = _made_by(networks.network)
algorithms = as_async(lists.algorithms)
branch = as_async(branches.branch)
campaign = as_async(campaigns.campaign)
compare = as_async(comparisons.compare)
faults = as_async(lists.faults)
map = as_async(mapping.map)  # noqa: A001  # as `coordinator.map`
sweep = as_async(sweeps.sweep)
topologies = as_async(lists.topologies)
verify = as_async(verification.verify)
watch = as_async(watching.watch)

_FUNCTIONS = {name: target for name, target in merged("names").items() if name.islower()}
"""The functions that annexes add to the Python API; a capital letter begins a class, which is the same here."""
__all__ += _FUNCTIONS  # noqa: PLE0605

if TYPE_CHECKING:
    from coordinator.annexes.mpi import api as mpi
    from coordinator.annexes.papers import api as papers
    from coordinator.annexes.proofs import api as proofs
    from coordinator.annexes.schedules import api as schedules

    judge = as_async(mpi.judge)
    reproduce = as_async(papers.reproduce)
    certify = as_async(proofs.certify)
    schedule = as_async(schedules.schedule)
else:

    def __getattr__(name):
        """Return the async form of a function that an annex adds to `coordinator`."""
        if name in _FUNCTIONS:
            value = globals()[name] = as_async(load(_FUNCTIONS[name]))
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

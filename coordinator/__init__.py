"""Bring up an interconnection network, run a collective on it, and judge the result: the Python API.

    import coordinator as tb

    run = tb.network("star:4").broadcast("edt", redundancy=3, faults=["crash:4231@2"])
    run.verdict, run.claims, run.journal

Only the names in `__all__` are public. They are imported when they are first used, so that importing this package takes no
time. The calls are synchronous; `coordinator.aio` has the same for programs that use trio.
"""

from typing import TYPE_CHECKING

from coordinator.annexes import merged, require_installed
from emunode import __version__ as __version__  # the same number; a module without imports
from emunode import moved_modules
from emunode.annexes import load

if TYPE_CHECKING:
    # for type checkers alone; the other names come from `register()` of the annexes
    from coordinator.annexes.mpi.api import judge as judge
    from coordinator.annexes.papers.api import reproduce as reproduce
    from coordinator.annexes.proofs.api import certify as certify
    from coordinator.annexes.proofs.certificate import Certificate as Certificate
    from coordinator.annexes.schedules.api import CollectiveSchedule as CollectiveSchedule
    from coordinator.annexes.schedules.api import schedule as schedule
    from coordinator.api.branches import branch
    from coordinator.api.campaigns import Campaign, campaign
    from coordinator.api.comparisons import compare
    from coordinator.api.lists import algorithms, faults, topologies
    from coordinator.api.mapping import map  # noqa: A004
    from coordinator.api.networks import Network, network
    from coordinator.api.runs import Run
    from coordinator.api.sweeps import sweep
    from coordinator.api.verification import verify
    from coordinator.api.watching import watch
    from coordinator.results.claims import Verdict
    from emunode.errors import (
        ContractError,
        DeadlineError,
        EmulatorError,
        FaultError,
        FrameError,
        RegistrationError,
        RuleError,
        RunError,
        ScenarioError,
    )

__all__ = [
    "Campaign",
    "ContractError",
    "DeadlineError",
    "EmulatorError",
    "FaultError",
    "FrameError",
    "Network",
    "RegistrationError",
    "RuleError",
    "Run",
    "RunError",
    "ScenarioError",
    "Verdict",
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

moved_modules.install()
__all__ += merged("names")  # noqa: PLE0605  # type checkers read the imports above

_HOMES = {
    "coordinator.api.branches": ("branch",),
    "coordinator.api.campaigns": ("Campaign", "campaign"),
    "coordinator.api.comparisons": ("compare",),
    "coordinator.api.lists": ("algorithms", "faults", "topologies"),
    "coordinator.api.mapping": ("map",),
    "coordinator.api.networks": ("Network", "network"),
    "coordinator.api.runs": ("Run",),
    "coordinator.api.sweeps": ("sweep",),
    "coordinator.api.verification": ("verify",),
    "coordinator.api.watching": ("watch",),
    "coordinator.results.claims": ("Verdict",),
    "emunode.errors": (
        "ContractError", "DeadlineError", "EmulatorError", "FaultError", "FrameError", "RegistrationError", "RuleError",
        "RunError", "ScenarioError",
    ),
}  # fmt: skip
"""The public names of each module of the core."""
_TARGETS = {name: f"{module}:{name}" for module, names in _HOMES.items() for name in names} | merged("names")


if not TYPE_CHECKING:  # to a type checker, any other name is an error

    def __getattr__(name):
        """Import a public name on first use (PEP 562)."""
        if name not in _TARGETS:
            require_installed(f"coordinator.{name}")
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = load(_TARGETS[name])
        return value


def __dir__() -> list[str]:
    return __all__

"""Bring up an interconnection network, run a collective on it, and judge the result: the Python API.

    import coordinator as tb

    run = tb.network("star:4").broadcast("edt", redundancy=3, faults=["crash:4231@2"])
    run.verdict, run.claims, run.journal

Only the names in `__all__` are public. They are imported when they are first used, so that importing this package takes no
time. The calls are synchronous; `coordinator.aio` has the same for programs that use trio.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from emunode import __version__ as __version__  # the same number; a module without imports

if TYPE_CHECKING:
    from coordinator.api.branches import branch
    from coordinator.api.campaigns import Campaign, campaign
    from coordinator.api.certificates import certify
    from coordinator.api.comparisons import compare
    from coordinator.api.judging import judge
    from coordinator.api.lists import algorithms, faults, topologies
    from coordinator.api.mapping import map  # noqa: A004
    from coordinator.api.networks import Network, network
    from coordinator.api.reproductions import reproduce
    from coordinator.api.runs import Run
    from coordinator.api.schedules import CollectiveSchedule, schedule
    from coordinator.api.sweeps import sweep
    from coordinator.api.verification import verify
    from coordinator.api.watching import watch
    from coordinator.campaigns.certificate import Certificate
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
    "Certificate",
    "CollectiveSchedule",
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
    "certify",
    "compare",
    "faults",
    "judge",
    "map",
    "network",
    "reproduce",
    "schedule",
    "sweep",
    "topologies",
    "verify",
    "watch",
]

_HOMES = {
    "coordinator.api.branches": ("branch",),
    "coordinator.api.campaigns": ("Campaign", "campaign"),
    "coordinator.api.certificates": ("certify",),
    "coordinator.api.comparisons": ("compare",),
    "coordinator.api.judging": ("judge",),
    "coordinator.api.lists": ("algorithms", "faults", "topologies"),
    "coordinator.api.mapping": ("map",),
    "coordinator.api.networks": ("Network", "network"),
    "coordinator.api.reproductions": ("reproduce",),
    "coordinator.api.runs": ("Run",),
    "coordinator.api.schedules": ("CollectiveSchedule", "schedule"),
    "coordinator.api.sweeps": ("sweep",),
    "coordinator.api.verification": ("verify",),
    "coordinator.api.watching": ("watch",),
    "coordinator.campaigns.certificate": ("Certificate",),
    "coordinator.results.claims": ("Verdict",),
    "emunode.errors": (
        "ContractError", "DeadlineError", "EmulatorError", "FaultError", "FrameError", "RegistrationError", "RuleError",
        "RunError", "ScenarioError",
    ),
}  # fmt: skip
"""The module of every public name."""


if not TYPE_CHECKING:  # to a type checker, any other name is an error

    def __getattr__(name):
        """Import a public name on first use (PEP 562)."""
        for module, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(module), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

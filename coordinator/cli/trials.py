"""Flags and defaults that `campaign` and `certify` share."""

from typing import Annotated, Any

from cyclopts import Parameter

from coordinator.campaigns.engines import Engine
from coordinator.cli.options import make_flags

TRIAL_DEFAULTS = {"collective": "broadcast", "driver": "memory"}
"""All drivers have the same history, and memory is the fastest."""
TrialFlags: Any = Annotated[make_flags("TrialFlags", TRIAL_DEFAULTS) | None, Parameter(name="*")]
EngineFlag = Annotated[
    Engine | None,
    Parameter(
        help="exact evaluates fault sets without messages; auto (default) does so wherever it is exact, and runs a "
        "sample again with messages"
    ),
]
WorkersFlag = Annotated[int | None, Parameter(help="worker processes; default: one per core in memory, else one")]

"""The keyword arguments of a run, written by `scripts/reference` from the fields of `Scenario`."""

from collections.abc import Sequence
from typing import TypedDict

Duration = str | float
"""Text with a unit, such as "5ms", or seconds as a number."""


class Options(TypedDict, total=False):
    """Every field of a scenario but network, collective, algorithm and faults, with the names and units of a scenario file.

    `coordinator run --help` and docs/reference/scenario.md describe them.
    """

    source: str | int
    target: str | int
    permutation: str
    port_model: str
    duplex: str
    message_bytes: int
    messages: int
    segments: int | str
    redundancy: int
    driver: str
    ranks_per_host: int | str
    placement: str
    netns: str
    hang_by: str
    host_file: str
    launcher: str
    clock: str
    startup: Duration
    per_byte: Duration
    lateness_limit: float
    worst_lateness_limit: float
    packet_limit: int
    link_capacity: int | str
    fault_knowledge: str
    keep_alive: Duration
    on_failure: str
    agreement_steps: int
    reliable: bool
    retransmit_after: int | str
    attempts: int
    window: int
    back_off: bool
    repair: str
    repair_after: int
    plugin: str | Sequence[str]
    program: str
    program_deadline: Duration
    schedule: str
    seed: int
    step_limit: int
    name: str
    values: str
    rounding: str
    fixed_order: bool
    leaves: int
    data: object
    trees: str
    heal_at: int | str

"""The fields of a scenario as keyword arguments."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from coordinator.annexes import annex_function
from coordinator.scenario.declared_network import AS_DECLARED
from coordinator.scenario.model import OPTIONS, Scenario, make_scenario
from coordinator.scenario.named import name_values
from coordinator.scenario.networks import load_topology
from coordinator.scenario.plugins import load_plugins
from coordinator.scenario.programs import allow_program
from coordinator.scenario.schedule_text import with_schedule
from emunode.errors import ScenarioError

FaultTexts = str | Sequence[str]
"""One fault or several, such as "crash:4231@2"."""

NOT_OPTIONS = ("topology", "network_sha256", *AS_DECLARED, "collective", "algorithm", "fault")
"""The fields of a scenario that have a place of their own in the API; all others are in `option_types.Options`."""


def scenario_of(values: Mapping[str, object], faults: FaultTexts, options: Mapping[str, object]) -> Scenario:
    """Return a scenario from the values of its network and algorithm, faults, and options; ScenarioError names the
    invalid value.
    """
    return make_scenario(scenario_values(values, faults, options))


def scenario_values(
    values: Mapping[str, object], faults: FaultTexts, options: Mapping[str, object]
) -> dict[str, object]:
    """Return the values of a scenario file, not validated yet; the driver is `memory` unless `options` name another
    driver.
    """
    for name in NOT_OPTIONS:
        if name in options:
            instead = "faults" if name == "fault" else "the arguments of network() and of the method"
            raise ScenarioError("scenario", name, f"it cannot be given here; use {instead}")
    name_values(options)
    # Before anything else: plug-ins may add options.
    loaded = load_plugins(as_list(options["plugin"])) if "plugin" in options else ()
    given = {name: _with_unit(value) if is_duration(name) else value for name, value in options.items()}
    if "plugin" in options:
        given["plugin"] = list(dict.fromkeys((*as_list(values.get("plugin", ())), *loaded)))
    if (data := options.get("data")) is not None and not isinstance(data, str):
        given["data"] = _held(data, values, options.get("leaves"))
    if isinstance(program := options.get("program"), str):
        given["program"] = allow_program(program)
    return with_schedule({"driver": "memory", **values, "fault": as_list(faults), **given})


def _held(data: object, values: Mapping[str, object], leaves: object) -> str:
    """Return the value of `data` for an array of shape (ranks, elements), or for a function of the rank; with `leaves`, of
    the contribution.
    """
    import numpy as np  # noqa: PLC0415  # few programs give arrays

    hold: Callable[..., str] = annex_function("hold arrays as contributions")

    if callable(data):
        sha256 = values.get("network_sha256")
        topology = load_topology(str(values["topology"]), None if sha256 is None else str(sha256))
        try:
            names = range(leaves) if isinstance(leaves, int) else topology.data_ranks
            rows = np.stack([np.asarray(data(name)) for name in names])
        except ValueError as error:
            raise ScenarioError("data", repr(data), f"arrays of one shape for all ranks: {error}") from None
        return hold(rows, fresh=True)
    return hold(np.asarray(data))


def is_duration(name: str) -> bool:
    """Return whether a key of a scenario is a time with a unit."""
    return name in OPTIONS and OPTIONS[name].is_duration


def as_list(texts: object) -> list[Any]:
    """Return one text or several as a list."""
    return list(texts) if isinstance(texts, Iterable) and not isinstance(texts, str) else [texts]


def require_number(name: str, value: object, kinds: type | tuple[type, ...] = int) -> None:
    """Raise ScenarioError unless an argument is a number of these types, or None."""
    if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
        raise ScenarioError(name, value, "expected a whole number" if kinds is int else "expected a number")


def _with_unit(value: object) -> object:
    """Return a duration in the form of a scenario file."""
    return f"{value!r}s" if isinstance(value, int | float) and not isinstance(value, bool) else value

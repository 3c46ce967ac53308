"""The drivers: where the ranks of a run execute.

To add one, write its launcher and register a `Driver` that names it: `register(Driver("mine", MyLaunch))`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from coordinator.annexes import merged, require_installed
from emunode.errors import RegistrationError
from emunode.registry import Registry


class JoinEndpoint(NamedTuple):
    """The place where hosts join that are started elsewhere, and the token that they must know."""

    address: str
    port: int
    token_file: Path
    join_seconds: float


@dataclass(frozen=True)
class Driver:
    """The properties of a driver that scenarios and plans depend on."""

    name: str
    launcher: str | Callable[..., Any]
    """The launcher of the hosts; empty if there are no hosts.

    A `Launch` class, called with the plan and the log. Or the name of a module with `launch(plan, log)`, imported when
    it is used.
    """
    most_hosts: int | None = None
    """The most hosts that `--ranks-per-host auto` starts; None: as many as there are cores, or as descriptors require."""
    local_processes: bool = False
    """Whether hosts are processes of this machine, in its network namespace and under its limits."""
    local_memory: bool = True
    """Whether hosts use the memory of this machine."""
    leaves_objects: bool = False
    """Whether objects of a killed run stay behind. The run records them; `remaining(record)` in the module of the launcher
    names them, and `sweep(record)` removes them."""
    join_seconds: float = 60.0
    """How long to wait for the next host to join."""
    join_seconds_per_host: float = 0.0
    """How much longer for each host of the run."""
    options: tuple[str, ...] = ()
    """The options of a scenario that only this driver, and others that name them, support."""


def _check(driver: Driver) -> None:
    if not isinstance(driver.name, str) or driver.name != driver.name.lower() or not driver.name.isidentifier():
        raise RegistrationError(f"driver {driver.name!r}: its name is not a lower-case word")
    missing = sorted(getattr(driver.launcher, "__abstractmethods__", ()))
    if missing:
        raise RegistrationError(f"the launcher of driver {driver.name!r} does not define {', '.join(missing)}")
    if not isinstance(driver.launcher, str) and not callable(driver.launcher):
        raise RegistrationError(f"the launcher of driver {driver.name!r} is neither a class nor the name of a module")


DRIVERS: Final = Registry[str, Driver]("driver", Driver, key=lambda driver: driver.name, check=_check, instances=True)
"""Every driver, by its name in scenarios."""

for _driver in (
    Driver("memory", "", most_hosts=0),
    Driver("local", "coordinator.networks.launchers.local", local_processes=True, join_seconds=30.0),
    Driver(
        "docker",
        "coordinator.networks.launchers.docker",
        most_hosts=24,
        leaves_objects=True,
        join_seconds_per_host=2.0,  # on a machine that may be busy
        options=("hang_by",),
    ),
    Driver("join", "coordinator.networks.launchers.join", most_hosts=24, local_memory=False),
    *(Driver(name, **values) for name, values in merged("drivers").items()),
):
    DRIVERS.add(_driver)


def driver_name(value: str) -> str:
    """Return the name of a registered driver; ValueError lists them."""
    if value not in DRIVERS:
        require_installed(f"driver {value!r}")
        *others, last = map(repr, DRIVERS)
        raise ValueError(f"Input should be {', '.join(others)} or {last}")
    return value


def join_defaults() -> str:
    """Return how long each driver waits for the next host by default, as help shows it."""
    texts: dict[str, list[str]] = {}
    for driver in DRIVERS.values():
        more = f" and {driver.join_seconds_per_host:g}s per host" * bool(driver.join_seconds_per_host)
        if driver.launcher and driver.name != "join":  # `serve` has a flag with its own default
            texts.setdefault(f"{driver.join_seconds:g}s{more}", []).append(driver.name)
    return "; ".join(f"{', '.join(names)} {text}" for text, names in texts.items())

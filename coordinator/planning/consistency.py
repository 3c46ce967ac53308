"""Scenarios that are refused: networks too large for a journal row, settings that a driver or a clock does not support."""

from coordinator.scenario.drivers import DRIVERS
from coordinator.scenario.model import Scenario
from coordinator.scenario.option import options_of
from coordinator.scenario.programs import DRIVERS as PROGRAM_DRIVERS
from coordinator.scenario.programs import ProgramOptions, command_of
from emunode.annexes import PROGRAM
from emunode.errors import ScenarioError
from emunode.model import Duplex
from emunode.topologies.base import RegularTopology, Topology

ROW_RANKS = 2**31 - 1
"""Ranks that a journal row can name."""
ROW_PORTS = 2**15 - 1
"""Ports that a journal row can name."""
LONGEST_WAY = 2**18
"""The largest diameter: tables of levels and steps have a row for each distance."""
IRREGULAR_SLOTS = 2**25
"""The largest order x degree of a network whose degrees differ: hosts and results have a slot for every port number."""


def require_size(topology: Topology) -> None:
    """Refuse a network whose ranks or ports do not fit a journal row, or whose tables by port number are too large."""
    topology.require_order(ROW_RANKS)
    topology.require(
        topology.degree <= ROW_PORTS, f"a node has {topology.degree} ports; a journal row can name {ROW_PORTS}"
    )
    diameter = topology.known_diameter
    topology.require(
        diameter is None or diameter <= LONGEST_WAY,
        f"its diameter is {diameter}, so that a run would take as many steps; at most {LONGEST_WAY} are allowed",
    )
    topology.require(
        isinstance(topology, RegularTopology) or topology.order * topology.degree <= IRREGULAR_SLOTS,
        f"{topology.order} nodes of up to {topology.degree} ports, not all of the same degree, take tables of order x "
        f"degree = {topology.order * topology.degree} entries; at most {IRREGULAR_SLOTS} are allowed",
    )


def require_used(scenario: Scenario) -> None:
    """Refuse an option that has no effect without another one, unless that is given too."""
    options = options_of(type(scenario))
    for name, option in options.items():
        needs, value = option.needs, getattr(scenario, name)
        if needs is None or value == option.field.default:
            continue
        if needs.option not in options or getattr(scenario, needs.option) == options[needs.option].field.default:
            raise ScenarioError(name, value, needs.reason)


def require_consistent(scenario: Scenario) -> None:
    """Refuse settings that the driver or the clock does not support."""
    driver = scenario.driver
    if scenario.clock == "timed":
        if not scenario.startup and not scenario.per_byte:
            raise ScenarioError(
                "startup", "0s", "packets take time under the timed clock: give --startup or --per-byte"
            )
        if scenario.duplex is Duplex.HALF:
            raise ScenarioError("duplex", "half", "the timed clock has full-duplex links only; use --clock steps")
    _require_driver_options(scenario)
    if scenario.netns == "always" and not DRIVERS[driver].local_processes:
        raise ScenarioError("netns", "always", f"only the local driver supports it, not {driver}; leave it out")
    _require_program(scenario)
    if driver == "memory" and scenario.ranks_per_host != "auto":
        raise ScenarioError("ranks_per_host", scenario.ranks_per_host, "the memory driver has no hosts; leave it out")
    placement = options_of(type(scenario))["placement"].field.default
    if driver == "memory" and scenario.placement != placement:
        raise ScenarioError("placement", scenario.placement[:80], "the memory driver has no hosts; leave it out")


def _require_driver_options(scenario: Scenario) -> None:
    """Refuse an option of other drivers."""
    options = options_of(type(scenario))
    for name in dict.fromkeys(name for driver in DRIVERS.values() for name in driver.options):
        value = getattr(scenario, name)
        if value != options[name].field.default and name not in DRIVERS[scenario.driver].options:
            *others, last = (driver.name for driver in DRIVERS.values() if name in driver.options)
            supported = f"drivers {', '.join(others)} and {last} support" if others else f"{last} driver supports"
            raise ScenarioError(name, value, f"only the {supported} it, not {scenario.driver}")


def _require_program(scenario: Scenario) -> None:
    """Refuse a program where none can run."""
    program = ProgramOptions.of(scenario).program
    if program is None:
        return
    if scenario.algorithm != PROGRAM:
        raise ScenarioError("program", command_of(program), f"it needs --algorithm {PROGRAM}")
    if scenario.driver not in PROGRAM_DRIVERS:
        raise ScenarioError(
            "driver", scenario.driver, f"programs run on this machine only: use {' or '.join(PROGRAM_DRIVERS)}"
        )
    if scenario.clock != "steps":
        raise ScenarioError("clock", scenario.clock, "programs run in lock-step: use --clock steps")

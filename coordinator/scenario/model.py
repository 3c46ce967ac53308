"""The scenario of a run: one frozen record with the same fields in TOML files, on the command line and in the API.

All values are checked here or in `plan`, before anything starts. An invalid value raises ScenarioError with the field, the
value and the allowed values.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    create_model,
)

from coordinator.annexes import require_installed
from coordinator.history.stored.reading import read_toml
from coordinator.scenario.added_options import ADDED, TAKEN, AddedOptions
from coordinator.scenario.drivers import DRIVERS, driver_name
from coordinator.scenario.durations import format_duration, parse_duration
from coordinator.scenario.option import PLUGIN, Form, Option, OptionGroup, ScenarioOption, options_of
from coordinator.scenario.reach import BY_DIGEST, DATA, DRIVER, NETWORK_FILE, PERMUTATION_FILE, PLACEMENT_FILE
from emunode.errors import ScenarioError, did_you_mean
from emunode.model import Collective, Detection, Duplex, FaultKnowledge, PortModel
from emunode.timed.cost_model import NANO, LinearCostModel


def _number(value: object) -> object:
    """Refuse `true` and `false`: Python would accept them as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("a number, and not true or false")
    return value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _lower_name(value: object) -> object:
    """Return a text with the name before its colon in small letters."""
    if not isinstance(value, str):
        return value
    name, colon, parameter = value.partition(":")
    return f"{name.lower()}{colon}{parameter}"


def _one_algorithm(value: str) -> str:
    """Refuse a list of algorithms. Raises ValueError."""
    if "," in value:
        raise ValueError(f"one algorithm at a time; `coordinator sweep` and `campaign` take --vary algorithm={value}")
    return value


def _netns(value: object) -> object:
    """Translate `true` and `false` of scenarios from before `auto` existed."""
    text = str(value).lower()
    return {"true": "always", "false": "never"}.get(text, text)


def step_count(value: object) -> int:
    """Return a whole number of steps. Raises ValueError."""
    if re.fullmatch("[1-9][0-9]{0,6}", str(value).strip()) and int(str(value)) <= MOST_TIME_OUT:
        return int(str(value))
    raise ValueError(f"a whole number of steps from 1 to {MOST_TIME_OUT}")


StepCount = Annotated[int, BeforeValidator(step_count)]
DETECT_FORM = "detect:K[:doubling]"
DETECT = re.compile("detect:([1-9][0-9]{0,5})(:doubling)?", re.ASCII)


def _knowledge(value: str) -> str:
    """Return one of `FaultKnowledge`, or `detect:K` with or without `:doubling`. Raises ValueError."""
    if DETECT.fullmatch(value):
        return value
    if value in set(FaultKnowledge) - {FaultKnowledge.DETECT}:
        return FaultKnowledge(value)
    raise ValueError(
        f"expected one of none, neighbours, all, {DETECT_FORM}: after K steps of silence, from 1 to 999999, such as detect:2"
    )


class OnFailure(StrEnum):
    """The reaction of nodes to a failure that they suspect."""

    CONTINUE = "continue"
    """Each avoids the links that it suspects itself."""
    AGREE = "agree"
    """In addition they agree on their suspicions."""
    SHRINK = "shrink"
    """Nodes abandon the collective, agree, and run it again on the remaining network."""


def knowledge_of(scenario: "Scenario") -> tuple[FaultKnowledge, Detection | None]:
    """Return the nodes that know the faults, and how they detect them."""
    detect = DETECT.fullmatch(scenario.fault_knowledge)
    if detect is None:
        return FaultKnowledge(scenario.fault_knowledge), None
    interval = 1 if scenario.keep_alive is None else round(scenario.keep_alive * NANO)
    return FaultKnowledge.DETECT, Detection(int(detect[1]), bool(detect[2]), interval)


def _label(value: object) -> object:
    """Turn the label of a node that is a whole number, as in many graphs, into its text."""
    return str(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


DURATION_FORM = Form("TIME", "Duration", is_duration=True)
Seconds = Annotated[float, BeforeValidator(parse_duration), PlainSerializer(format_duration), DURATION_FORM]
OptionalSeconds = Annotated[
    float | None,
    BeforeValidator(lambda value: None if value is None else parse_duration(value)),
    PlainSerializer(lambda value: None if value is None else format_duration(value)),
    DURATION_FORM,
]
Whole = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
LowerText = Annotated[str, BeforeValidator(_lower)]
# Labels of some networks begin with a minus.
Label = Annotated[str, BeforeValidator(_label), Form("TEXT", "str | int", may_begin_with_hyphen=True)]
Count = Annotated[Whole, Field(ge=1, lt=2**31)]
Automatic = Annotated[Literal["auto"], BeforeValidator(_lower)]
Unlimited = Annotated[Literal["unlimited"], BeforeValidator(_lower)]
MOST_MESSAGES = 1_000_000
MOST_BYTES = 2**25
DEFAULT_BYTES = 64
"""The default size of a message, and of a block of a vector."""
DEFAULT_VECTOR_BYTES = 2**16
"""The largest default size of a vector, unless there are more ranks."""
MOST_REDUNDANCY = 1024
MOST_TIME_OUT = 1_000_000
"""Steps of the longest time-out of a reliable link, and of the longest wait before a repair."""


class Scenario(BaseModel):
    """The complete description of a run. The same scenario and seed give the same journal hash on every driver."""

    # Deferred: `scenario_model()` inherits these fields, and only the model that validates values needs a validator.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    # All that a new option needs outside the code that uses it is its field here, or a field of `AddedOptions` beside
    # the feature that uses it.
    topology: Annotated[str, Option(OptionGroup.COLLECTIVE, reach=NETWORK_FILE)] = Field(
        description="network such as star:5, torus:4x4 or file:NET.graphml; see `coordinator list topologies`"
    )
    collective: Annotated[Collective, BeforeValidator(_lower), Option(OptionGroup.COLLECTIVE, reach=DATA)] = Field(
        description="collective operation"
    )
    algorithm: Annotated[
        str, BeforeValidator(_lower), AfterValidator(_one_algorithm), Option(OptionGroup.COLLECTIVE, reach=DATA)
    ] = Field(description="see `coordinator list algorithms`")
    source: Annotated[Label | None, Option(OptionGroup.COLLECTIVE, reach=DATA)] = Field(
        None, description="label of the source (broadcast, scatter, unicast) or of the target (gather, reduce)"
    )
    target: Annotated[Label | None, Option(OptionGroup.COLLECTIVE, reach=DATA)] = Field(
        None, description="label of the target of a unicast; default: the node of lowest rank farthest from the source"
    )
    permutation: Annotated[str | None, Option(OptionGroup.COLLECTIVE, reach=PERMUTATION_FILE)] = Field(
        None,
        max_length=2**25,
        description="unicast with a message from every node: a permutation such as reversal, random or shift:3, or a CSV "
        "file of source and target labels",
    )
    port_model: Annotated[PortModel, BeforeValidator(_lower), Option(OptionGroup.COLLECTIVE, reach=DATA)] = Field(
        PortModel.ALL_PORT, description="ports that a node may use in one step"
    )
    duplex: Annotated[Duplex, BeforeValidator(_lower), Option(OptionGroup.COLLECTIVE, reach=DATA)] = Field(
        Duplex.FULL, description="whether a link carries packets both ways in one step"
    )
    network_sha256: Annotated[str | None, Option(OptionGroup.COLLECTIVE, reach=DATA)] = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="digest that a network from a file must have"
    )
    relabel: Annotated[bool, Option(OptionGroup.COLLECTIVE, reach=DATA)] = Field(
        False, description="call the nodes of a network from a file by their ranks"
    )
    merge_links: Annotated[bool, Option(OptionGroup.COLLECTIVE, reach=DATA)] = Field(
        False, description="make one link of parallel links in a network from a file; their rates and weights add"
    )
    message_bytes: Annotated[
        Annotated[Whole, Field(ge=1, le=MOST_BYTES)] | None, Option(OptionGroup.MESSAGES, reach=DATA)
    ] = Field(
        None,
        description="bytes that a rank contributes: a message, or the vector of an allreduce or reduce-scatter; default: "
        "64, and for a vector 64 for each rank",
    )
    messages: Annotated[Whole, Option(OptionGroup.MESSAGES, reach=DATA)] = Field(
        1, ge=1, le=MOST_MESSAGES, description="messages for each source and target"
    )
    segments: Annotated[
        Annotated[Whole, Field(ge=1, le=MOST_BYTES)] | Automatic, Option(OptionGroup.MESSAGES, reach=DATA)
    ] = Field(1, description="pieces of a message on each tree")
    redundancy: Annotated[Whole, Option(OptionGroup.MESSAGES, reach=DATA)] = Field(
        1, ge=1, le=MOST_REDUNDANCY, description="trees that carry each message"
    )
    driver: Annotated[
        str, BeforeValidator(_lower), AfterValidator(driver_name), Option(OptionGroup.PROCESSES, reach=DRIVER)
    ] = Field(
        "local",
        json_schema_extra={"enum": list(DRIVERS)},
        description="where ranks run: in one loop, in host processes, in containers, on other machines, in hosts that "
        "join (`serve`)",
    )
    ranks_per_host: Annotated[Count | Automatic, Option(OptionGroup.PROCESSES, reach=DATA)] = Field(
        "auto", description="ranks per process; auto: one process per core, or at most 24 containers"
    )
    placement: Annotated[str, BeforeValidator(_lower_name), Option(OptionGroup.PROCESSES, reach=PLACEMENT_FILE)] = (
        Field(
            "blocks",
            max_length=2**25,
            description="nodes that share a host: blocks, round-robin, sub-network, least-crossing or file:FILE; see "
            "`coordinator list placements`",
        )
    )
    netns: Annotated[
        Literal["auto", "always", "never"], BeforeValidator(_netns), Option(OptionGroup.PROCESSES, reach=DATA)
    ] = Field(
        "auto",
        description="run in a network namespace of its own, where no packet filter tracks connections; auto: if the run "
        "has more links than the filter can track (local driver)",
    )
    hang_by: Annotated[
        Literal["pause", "disconnect"], BeforeValidator(_lower), Option(OptionGroup.PROCESSES, reach=DATA)
    ] = Field(
        "pause",
        description="how a container hangs: paused by its engine, or disconnected from the network (docker driver)",
    )
    clock: Annotated[Literal["steps", "timed"], BeforeValidator(_lower), Option(OptionGroup.CLOCK, reach=DATA)] = Field(
        "steps", description="steps: lock-step; timed: nodes run independently, packets take real time"
    )
    startup: Annotated[Seconds, Option(OptionGroup.CLOCK, reach=DATA)] = Field(
        1e-3, description="time to start one packet, such as 5ms; virtual, or real if timed"
    )
    per_byte: Annotated[Seconds, Option(OptionGroup.CLOCK, reach=DATA)] = Field(
        1e-6, description="time per byte, such as 1us"
    )
    packet_limit: Annotated[Count | None, Option(OptionGroup.MESSAGES, reach=DATA)] = Field(
        None, description="most bytes that one start-up covers; default: no limit"
    )
    link_capacity: Annotated[Count | Automatic | Unlimited | None, Option(OptionGroup.MESSAGES, reach=DATA)] = Field(
        None,
        description="most segments in one packet, where the algorithm sets no bound of its own; auto: what one start-up "
        "covers; default: as the algorithm is published",
    )
    fault: Annotated[tuple[str, ...], Option(OptionGroup.FAULTS, reach=DATA)] = Field(
        (), description="fault, such as crash:3142@2 (repeatable)"
    )
    fault_knowledge: Annotated[
        str, BeforeValidator(_lower), AfterValidator(_knowledge), Option(OptionGroup.FAULTS, reach=DATA)
    ] = Field(
        FaultKnowledge.NONE,
        json_schema_extra={"enum": ["none", "neighbours", "all", DETECT_FORM]},
        description="nodes that know the faults: none (as in the papers), neighbours, all; detect:K: neighbours, after "
        "K steps of silence",
    )
    keep_alive: Annotated[OptionalSeconds, Option(OptionGroup.FAULTS, reach=DATA)] = Field(
        None, gt=0, description="detect:K under the timed clock: time between two signs of life of a node, such as 5ms"
    )
    on_failure: Annotated[OnFailure, BeforeValidator(_lower), Option(OptionGroup.FAULTS, reach=DATA)] = Field(
        OnFailure.CONTINUE,
        description="when nodes suspect a failure: continue; agree on what has failed; shrink: agree, and run the "
        "collective again on what is left (needs --fault-knowledge detect:K)",
    )
    plugin: Annotated[tuple[str, ...], Option(OptionGroup.CODE, reach=BY_DIGEST)] = Field((), description=PLUGIN)
    seed: Annotated[Whole, Option(OptionGroup.REPETITION, reach=DATA)] = Field(
        0, ge=0, lt=2**63, description="seed of payloads and of every random choice"
    )
    step_limit: Annotated[Count, Option(OptionGroup.REPETITION, reach=DATA)] = Field(
        100_000, description="steps after which a run is stopped, undecided"
    )
    name: Annotated[str | None, Option(OptionGroup.REPETITION, reach=DATA)] = Field(
        None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+^-]*$", max_length=128, description="folder of the run below runs/"
    )

    def on_driver(self, driver: str) -> "Scenario":
        """Return the same scenario on another driver, without settings of processes; the history stays the same."""
        return self.without(OptionGroup.PROCESSES).model_copy(update={"driver": driver})

    def without(self, group: OptionGroup) -> "Scenario":
        """Return the same scenario with the defaults of all options of a group."""
        defaults = {name: each.field.default for name, each in options_of(type(self)).items() if each.group == group}
        return self.model_copy(update=defaults)


TAKEN.update(dir(Scenario), Scenario.model_fields)


def scenario_model() -> type[Scenario]:
    """Return the model of new scenarios: `Scenario` with the options of all features and plug-ins that are loaded."""
    return _model_with(tuple(ADDED.values()))


# Pydantic takes milliseconds for a model, and a process loads few plug-ins.
@lru_cache(maxsize=16)
def _model_with(added: tuple[type[AddedOptions], ...]) -> type[Scenario]:
    if not added:
        return Scenario
    bases: Any = (*added, Scenario)
    model: type[Scenario] = create_model(Scenario.__name__, __base__=bases, __doc__=Scenario.__doc__)
    # Validators and serialisers are built later (`defer_build`), from the fields in this order.
    model.__pydantic_fields__ = {name: model.model_fields[name] for name in _in_order(added)}
    return model


def _in_order(added: Iterable[type[AddedOptions]]) -> list[str]:
    """Return the names of all options in the order of files and help."""
    order = list(Scenario.model_fields)
    for record in added:
        place = order.index(record.before) if record.before in order else len(order)
        order[place:place] = record.model_fields
    return order


class _Options(Mapping[str, ScenarioOption]):
    """The options of `scenario_model()`; plug-ins change them."""

    def __getitem__(self, name: str) -> ScenarioOption:
        return options_of(scenario_model())[name]

    def __iter__(self) -> Iterator[str]:
        return iter(options_of(scenario_model()))

    def __len__(self) -> int:
        return len(options_of(scenario_model()))


OPTIONS: Mapping[str, ScenarioOption] = _Options()
"""Every option that a new scenario may have, by name. The options of a given scenario are the options of its class."""


def costs_of(scenario: Scenario) -> LinearCostModel:
    """Return the cost of a packet; its occupancy of a port and the virtual time of a step follow from the cost."""
    return LinearCostModel(scenario.startup, scenario.per_byte, scenario.packet_limit or 0)


NUMBER_ERRORS: Final = frozenset(
    {
        "int_parsing", "int_parsing_size", "int_type", "int_from_float", "float_parsing", "float_type", "finite_number",
        "greater_than", "greater_than_equal", "less_than", "less_than_equal",
    }
)  # fmt: skip
"""Kinds of errors of pydantic about numbers whose wording does not state the allowed numbers."""


def make_scenario(values: Mapping[str, object]) -> Scenario:
    """Validate plain values; ScenarioError names all missing fields, or else the first invalid one."""
    model = scenario_model()
    for key in values:
        if key not in OPTIONS:
            require_installed(f"--{key.replace('_', '-')}")
            hint = did_you_mean(key, OPTIONS).rstrip() or f"known are: {', '.join(OPTIONS)}"
            raise ScenarioError("scenario", key, f"there is no such key; {hint}")
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        missing = [str(each["loc"][0]) for each in error.errors() if each["type"] == "missing"]
        described = [f"{field} ({OPTIONS[field].field.description})" for field in missing]
        if len(missing) == 1:
            raise ScenarioError(missing[0], None, f"it is required: {OPTIONS[missing[0]].field.description}") from None
        if missing:
            raise ScenarioError(
                "scenario",
                None,
                f"these are required: {'; '.join(described)}; for example `coordinator run star:4 broadcast edt`",
            ) from None
        first = error.errors()[0]
        field = str(first["loc"][0])
        message = first["msg"].removeprefix("Value error, ")
        option = OPTIONS[field]
        if (option.words or first["type"] in NUMBER_ERRORS) and option.allowed:
            message = option.allowed
        if first["type"] in ("enum", "literal_error") and isinstance(first["input"], str):
            allowed = re.findall("'([^']+)'", first["ctx"]["expected"])
            message = f"{did_you_mean(first['input'], allowed)}it is one of {', '.join(allowed)}"
        raise ScenarioError(field, first["input"], message[:1].lower() + message[1:]) from None


VARIABLE_PREFIX = "TESTBENCH_"


def scenario_from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """Return the values from variables such as TESTBENCH_TOPOLOGY, not validated yet. Faults and plug-ins are separated
    by spaces.
    """
    values: dict[str, object] = {}
    for key in OPTIONS:
        text = environment.get(VARIABLE_PREFIX + key.upper(), "").strip()
        if text:
            values[key] = text.split() if OPTIONS[key].is_repeatable else text
    return values


def read_scenario(path: Path) -> dict[str, object]:
    """Return the values of a scenario file, not validated yet."""
    try:
        return read_toml(path)
    except OSError as error:
        hint = f"; a network is given with --topology {path}" if ":" in path.name and not path.exists() else ""
        raise ScenarioError("scenario", str(path), f"the file cannot be read: {error.strerror}{hint}") from None
    except ValueError as error:
        raise ScenarioError("scenario", str(path), f"it is not TOML: {error}") from None


def dump_scenario(scenario: Scenario) -> str:
    """Return the scenario as TOML, with every field that has a value."""
    return tomli_w.dumps(plain_values(scenario))


def plain_values(scenario: Scenario) -> dict[str, Any]:
    """Return every field that has a value, as the plain values of a scenario file; later switches only if they are on."""
    values = scenario.model_dump(mode="json", exclude_none=True)
    # Files of runs without a feature stay as they are when the feature gets a switch.
    later = {name for record in ADDED.values() if record.before is None for name in record.model_fields}
    return {name: value for name, value in values.items() if value is not False or name not in later}

"""Scenarios: flags and files are equivalent, and invalid values are refused with the allowed ones."""

import tomllib
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from coordinator.scenario.durations import format_duration, parse_duration
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import OPTIONS, Scenario, dump_scenario, make_scenario, read_scenario
from emunode.errors import ScenarioError
from emunode.faults.byzantine import Byzantine, Equivocate, Selective, Silent, SilentPorts
from emunode.faults.kinds import Corrupt, Crash, Delay, Down, Drop, Fault, Hang, Loss, Recover, Up
from emunode.model import Collective, Duplex, PortModel
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import fields
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows, run_scenario

BASE = fields("star:4 broadcast greedy-tree")
STATED: dict[str, object] = {
    **BASE,
    "source": "2134",
    "target": "3214",
    "permutation": "shift:3",
    "schedule": "{}",
    "port_model": "one-port",
    "duplex": "half",
    "network_sha256": "0" * 64,
    "relabel": True,
    "merge_links": True,
    "message_bytes": 128,
    "messages": 3,
    "segments": 4,
    "redundancy": 1,
    "driver": "local",
    "ranks_per_host": 12,
    "placement": "round-robin",
    "netns": True,
    "host_file": "machines",
    "launcher": "mpirun -v",
    "hang_by": "pause",
    "clock": "steps",
    "lateness_limit": 0.1,
    "worst_lateness_limit": 12.5,
    "startup": "5ms",
    "per_byte": "1.5us",
    "packet_limit": 1024,
    "link_capacity": "auto",
    "fault": ["crash:4321@2", "crash:1234@5"],
    "fault_knowledge": "none",
    "on_failure": "shrink",
    "agreement_steps": 9,
    "reliable": True,
    "retransmit_after": 4,
    "attempts": 7,
    "keep_alive": "4ms",
    "window": 3,
    "back_off": True,
    "repair": "switch-tree",
    "repair_after": 3,
    "plugin": [],
    "program": "sh node.sh",
    "program_deadline": "2s",
    "seed": 42,
    "step_limit": 500,
    "name": "a-first.try",
}
FULL: dict[str, object] = {name: value for name, value in STATED.items() if name in OPTIONS}
"""A value of every field, also of installed annexes: another one than its default, if it has one."""


def refused(**values: object) -> ScenarioError:
    """Return the error of a scenario or of its plan."""
    with pytest.raises(ScenarioError) as caught:
        _ = Case({"driver": "local", **BASE, **values}).plan
    assert str(caught.value) == f"invalid {caught.value.field} {caught.value.value!r}: {caught.value.allowed}"
    return caught.value


# --- files and flags -------------------------------------------------------------------------------------------------


def test_full_scenario_has_every_field() -> None:
    assert FULL.keys() >= Scenario.model_fields.keys()


def test_files_and_flags_mean_the_same(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(tomli_w.dumps(FULL))
    flags = {key: value if key in ("fault", "plugin") else str(value) for key, value in FULL.items()}
    assert make_scenario(read_scenario(file)) == make_scenario(flags)


def test_field_values_are_normalised() -> None:
    made = make_scenario(FULL)
    assert made.collective is Collective.BROADCAST
    assert made.port_model is PortModel.ONE_PORT
    assert made.duplex is Duplex.HALF
    assert (made.startup, made.per_byte) == (0.005, 1.5e-6)
    assert made.fault == ("crash:4321@2", "crash:1234@5")
    assert made.segments == 4
    assert make_scenario({**BASE, "segments": "auto"}).segments == "auto"


@pytest.mark.parametrize("values", [BASE, FULL], ids=["base", "full"])
def test_scenario_file_round_trip(values: dict[str, object], tmp_path: Path) -> None:
    made = make_scenario(values)
    file = tmp_path / "scenario.toml"
    file.write_text(dump_scenario(made))
    assert make_scenario(read_scenario(file)) == made
    assert tomllib.loads(dump_scenario(made)).keys() <= OPTIONS.keys()


@pytest.mark.parametrize(
    "scenario",
    [
        "star:4 broadcast greedy-tree source=4231 seed=3",
        "ej:2+3 broadcast improved source=-1,1 fault=crash:0,1@2",
        "hypercube:4 broadcast sbt segments=3 messages=2 per_byte=333ns name=mine",
    ],
)
def test_the_scenario_of_a_run_runs_again_to_the_same_hash(scenario: str, tmp_path: Path) -> None:
    first = run_scenario(tmp_path / "first", **fields(scenario))
    written = read_scenario(first.path / "scenario.toml")
    second = run_scenario(tmp_path / "second", **written)
    assert second.summary["journal_hash"] == first.summary["journal_hash"]
    assert second.summary["virtual_seconds"] == first.summary["virtual_seconds"]
    assert read_scenario(second.path / "scenario.toml") == written


# --- malformed files -------------------------------------------------------------------------------------------------


def file_refused(path: Path) -> str:
    """Return the error of a scenario file."""
    with pytest.raises(ScenarioError) as caught:
        read_scenario(path)
    assert (caught.value.field, caught.value.value) == ("scenario", str(path))
    return caught.value.allowed


def test_missing_file(tmp_path: Path) -> None:
    assert file_refused(tmp_path / "nothing.toml") == "the file cannot be read: No such file or directory"
    assert file_refused(tmp_path) == "the file cannot be read: Is a directory"


@pytest.mark.parametrize(
    "content",
    [
        b"topology: star:4",
        b"seed = ",
        b"\xff\xfe",
        b"seed = 1\nseed = 2",
        pytest.param(b"seed = " + b"9" * 5000, id="a number too long to be read"),
        pytest.param(b"fault = " + b"[" * 5000, id="arrays too deep to be read"),
    ],
)
def test_invalid_toml_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "scenario.toml").write_bytes(content)
    assert file_refused(tmp_path / "scenario.toml").startswith("it is not TOML: ")


# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("topolgy", "did you mean 'topology'?"),
        ("faults", "did you mean 'fault'?"),
        ("message_byte", "did you mean 'message_bytes'?"),
        ("port-model", "did you mean 'port_model'?"),
        ("sead", "did you mean 'seed'?"),
        ("xyzzy", f"known are: {', '.join(OPTIONS)}"),
    ],
)
def test_unknown_key_suggests_the_nearest_one_or_lists_all(key: str, hint: str) -> None:
    error = refused(**{key: "x"})
    assert (error.field, error.value) == ("scenario", key)
    assert error.allowed == f"there is no such key; {hint}"


def test_all_missing_fields_are_named_at_once() -> None:
    with pytest.raises(ScenarioError) as caught:
        make_scenario({"seed": 1})
    assert all(field in str(caught.value) for field in ("topology", "collective", "algorithm", "coordinator list"))
    with pytest.raises(ScenarioError, match="it is required: "):
        make_scenario({"topology": "star:4", "collective": "broadcast"})


# --- values ----------------------------------------------------------------------------------------------------------

INVALID = golden_rows("", "refused_values")
"""Scenarios, and a field of each with an invalid value, written as in a scenario file."""
INVALID.append({**INVALID[0], "field": "fault", "value": f"['crash:1234@{'9' * 5000}']", "allowed": "counted from 1"})


@pytest.mark.parametrize("row", INVALID, ids=lambda row: f"{row['scenario']}-{row['field']}-{row['value'][:80]}")
def test_invalid_value_is_refused_with_the_allowed_ones(row: dict[str, str]) -> None:
    field, value = row["field"], tomllib.loads(f"value = {row['value']}")["value"]
    error = refused(**{**fields(row["scenario"]), field: value})
    assert error.field == field
    assert error.value == (value[-1] if field == "fault" and isinstance(value, list) else value)
    assert row["allowed"] in error.allowed


# --- durations -------------------------------------------------------------------------------------------------------


DURATIONS = [
    ("5ms", 5e-3, "5ms"),
    ("1.5us", 1.5e-6, "1.5us"),
    ("2s", 2.0, "2s"),
    ("1000ms", 1.0, "1s"),
    ("10 ns", 1e-8, "10ns"),
    ("1ns", 1e-9, "1ns"),
    ("0.1s", 0.1, "100ms"),
    ("0", 0.0, "0s"),
    (0, 0.0, "0s"),
    ("0s", 0.0, "0s"),
    ("1e-3ms", 1e-6, "1us"),
    ("1e+2s", 100.0, "100s"),
]


@pytest.mark.parametrize(("given", "seconds", "formatted"), DURATIONS, ids=repr)
def test_durations(given: object, seconds: float, formatted: str) -> None:
    assert parse_duration(given) == pytest.approx(seconds, rel=1e-15)
    assert format_duration(seconds) == formatted


@given(st.floats(0, 1e9) | st.integers(0, 10**6).map(lambda number: parse_duration(f"{number}ns")))
def test_duration_round_trip(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


# --- faults ----------------------------------------------------------------------------------------------------------


def test_faults_take_effect_in_order_of_steps() -> None:
    star = parse_topology("star:4")
    faults = parse_faults(["crash:4321@3", "crash:1234@1", "crash:2134@3"], star)
    assert faults == (Crash(1, 0), Crash(3, star.rank("2134")), Crash(3, star.rank("4321")))


EJ = "ej:2+3"
SPECS: list[tuple[str, tuple[Fault, ...]]] = [
    ("hang:-1,0@3-7", (Hang(3, 18, 7),)),
    ("hang:-1,0@3", (Hang(3, 18),)),
    ("byzantine:-1,0", (Byzantine(1, 18),)),
    ("byzantine:-1,0@2-2", (Byzantine(2, 18, 2),)),
    ("equivocate:-1,0@2", (Equivocate(2, 18),)),
    ("silent:-1,0", (Silent(1, 18),)),
    ("silent-ports:-1,0:0.5@2-3", (SilentPorts(2, 18, 0.5, 3),)),
    ("selective:-1,0:1", (Selective(1, 18, 1.0),)),
    ("down:0,0~-1,0@2", (Down(2, 0, 3), Down(2, 18, 0))),
    ("down:-1,0>0,0@2-4", (Down(2, 18, 0, 4),)),
    ("loss:0,0>-1,0:0.25", (Loss(1, 0, 3, 0.25),)),
    ("loss:0,0>-1,0:1e-3@2-9", (Loss(2, 0, 3, 0.001, 9),)),
    ("corrupt:0,0~-1,0:1", (Corrupt(1, 0, 3, 1.0), Corrupt(1, 18, 0, 1.0))),
    ("delay:-1,0>0,0:2@3", (Delay(3, 18, 0, 2),)),
    ("drop:-1,0>0,0:3", (Drop(1, 18, 0, 3),)),
]


@pytest.mark.parametrize(("spec", "faults"), SPECS, ids=[spec for spec, _ in SPECS])
def test_specification_is_parsed_to_records(spec: str, faults: tuple[Fault, ...]) -> None:
    ej = parse_topology(EJ)
    assert ej.label(18) == "-1,0"
    parsed = parse_faults([spec], ej)
    assert parsed == faults
    assert {fault.text for fault in parsed} == {spec}


def test_link_may_come_up_in_one_direction() -> None:
    ej = parse_topology(EJ)
    faults = parse_faults(["up:-1,0>0,0@5", "down:0,0~-1,0@2", "crash:1,0@1", "recover:1,0@2", "crash:1,0@3"], ej)
    one = ej.rank("1,0")
    assert faults == (Crash(1, one), Recover(2, one), Down(2, 0, 3), Down(2, 18, 0), Crash(3, one), Up(5, 18, 0))


# --- sizes, truth values, capitals -----------------------------------------------------------------------------------

NUMBERS = [
    "message_bytes", "messages", "segments", "redundancy", "ranks_per_host", "startup", "per_byte", "lateness_limit",
    "packet_limit", "link_capacity", "seed", "step_limit",
]  # fmt: skip


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", [True, False, 10**30, "9" * 400, 1e300])
def test_booleans_and_huge_numbers_are_refused(field: str, value: object) -> None:
    timed = field in ("startup", "per_byte") and not isinstance(value, bool)
    assert refused(**{field: f"{value}s" if timed else value}).field == field


def test_names_are_case_insensitive() -> None:
    given = {
        "topology": "Star:4", "collective": "Broadcast", "algorithm": "EDT", "port_model": "All-Port", "duplex": "FULL",
        "driver": "Memory", "clock": "Steps", "segments": "AUTO", "fault_knowledge": "None", "hang_by": "Pause",
    }  # fmt: skip
    small = {name: value.lower() for name, value in given.items()}
    assert make_scenario(given).model_dump(exclude={"topology"}) == make_scenario(small).model_dump(
        exclude={"topology"}
    )
    assert Case(given, segments=1).plan.topology.name == "star:4"


@pytest.mark.parametrize(
    "faults",
    [
        "down:1234~2134@2-10 down:1234~2134@3-4 up:1234~2134@6",
        "down:1234~2134@2 down:1234>2134@3-4 up:1234~2134@6",
        "down:1234~2134@2-10 down:1234~2134@3-12 up:1234~2134@11",
    ],
)
def test_up_ends_every_interval_of_down_that_overlaps(faults: str) -> None:
    parse_faults(faults.split(), parse_topology("star:4"))

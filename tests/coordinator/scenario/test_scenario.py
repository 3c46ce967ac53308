"""Scenarios: flags and files are equivalent, and invalid values are refused with the allowed ones."""

import tomllib
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from coordinator.cli.options import scenario_from
from coordinator.planning.plan import make_plan
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import (
    Scenario,
    dump_scenario,
    format_duration,
    make_scenario,
    parse_duration,
    read_scenario,
)
from emunode.errors import ScenarioError
from emunode.faults.kinds import Byzantine, Corrupt, Crash, Delay, Down, Drop, Fault, Hang, Loss, Recover, Up
from emunode.model import Collective, Duplex, PortModel
from emunode.topologies.registry import parse_topology
from tests.command_line import fields
from tests.support import run_scenario

BASE = fields("star:4 broadcast greedy-tree")
FULL: dict[str, object] = {
    **BASE,
    "source": "2134",
    "port_model": "one-port",
    "duplex": "half",
    "network_sha256": "0" * 64,
    "relabel": True,
    "message_bytes": 128,
    "messages": 3,
    "segments": 4,
    "redundancy": 1,
    "driver": "local",
    "ranks_per_host": 12,
    "netns": True,
    "hang_by": "pause",
    "clock": "steps",
    "lateness_limit": 0.1,
    "worst_lateness_limit": 12.5,
    "startup": "5ms",
    "per_byte": "1.5us",
    "packet_limit": 1024,
    "fault": ["crash:4321@2", "crash:1234@5"],
    "fault_knowledge": "none",
    "seed": 42,
    "step_limit": 500,
    "name": "a-first.try",
}
"""Every field, with a value other than its default where there is one."""


def refused(**values: object) -> ScenarioError:
    """The error of a scenario or of its plan."""
    with pytest.raises(ScenarioError) as caught:
        make_plan(make_scenario({**BASE, **values}))
    assert str(caught.value) == f"invalid {caught.value.field} {caught.value.value!r}: {caught.value.allowed}"
    return caught.value


# --- files and flags -------------------------------------------------------------------------------------------------


def test_full_scenario_has_every_field() -> None:
    assert FULL.keys() == Scenario.model_fields.keys()


def test_files_and_flags_mean_the_same(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(tomli_w.dumps(FULL))
    flags = {key: value if key == "fault" else str(value) for key, value in FULL.items()}
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


def test_default_values() -> None:
    made = make_scenario(BASE)
    assert (made.driver, made.ranks_per_host, made.seed, made.fault) == ("local", "auto", 0, ())
    assert (made.port_model, made.duplex, made.clock) == (PortModel.ALL_PORT, Duplex.FULL, "steps")


@pytest.mark.parametrize("values", [BASE, FULL], ids=["base", "full"])
def test_scenario_file_round_trip(values: dict[str, object], tmp_path: Path) -> None:
    made = make_scenario(values)
    file = tmp_path / "scenario.toml"
    file.write_text(dump_scenario(made))
    assert make_scenario(read_scenario(file)) == made
    assert tomllib.loads(dump_scenario(made)).keys() <= Scenario.model_fields.keys()


def test_flags_override_a_file(tmp_path: Path) -> None:
    from coordinator.cli.options import Flags

    file = tmp_path / "scenario.toml"
    file.write_text(tomli_w.dumps(FULL))
    made = scenario_from(file, Flags(seed="7", fault=["crash:2341@9"]))
    assert made == make_scenario({**FULL, "seed": 7, "fault": ["crash:2341@9"]})
    assert scenario_from(None, Flags(**{key: str(value) for key, value in BASE.items()})) == make_scenario(BASE)


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
    """The error of a scenario file."""
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


NEAREST = {
    "topolgy": "topology",
    "faults": "fault",
    "message_byte": "message_bytes",
    "port-model": "port_model",
    "sead": "seed",
}


@pytest.mark.parametrize("key", NEAREST)
def test_unknown_key_suggests_the_nearest_one(key: str) -> None:
    error = refused(**{key: "x"})
    assert (error.field, error.value) == ("scenario", key)
    assert error.allowed == f"there is no such key; did you mean {NEAREST[key]!r}?"


def test_unknown_key_lists_all_keys() -> None:
    error = refused(xyzzy=1)
    assert error.allowed.startswith("there is no such key; known are: topology, collective, algorithm, ")


@pytest.mark.parametrize("field", ["topology", "collective", "algorithm"])
def test_missing_field_is_named(field: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        make_scenario({key: value for key, value in BASE.items() if key != field})
    assert caught.value.field == field
    assert caught.value.allowed.startswith("it is required: ")


def test_all_missing_fields_are_named_at_once() -> None:
    with pytest.raises(ScenarioError) as caught:
        make_scenario({"seed": 1})
    assert all(field in str(caught.value) for field in ("topology", "collective", "algorithm", "coordinator list"))


# --- values ----------------------------------------------------------------------------------------------------------

BAD = [
    ("topology", "lattice:5", "known are star, hypercube, ej, "),
    ("topology", "star", "star:N"),
    ("topology", "star:2", "n >= 3"),
    ("topology", "star:x", "star:N"),
    ("topology", "hypercube:1", "n >= 2"),
    ("topology", "ej:3+2", "0 <= a <= b; ej:2+3 is the same network"),
    ("topology", "ej:1+1", "below 7 the six links are not distinct"),
    ("topology", "star:13", "at most 2147483647 can be addressed"),
    ("topology", 5, "string"),
    ("collective", "broadcst", "'broadcast'"),
    ("algorithm", "greedy", "did you mean 'greedy-tree'?"),
    ("algorithm", "sbt", "it is defined for broadcast on hypercube"),
    ("algorithm", "improved", "ej; broadcast on star is done by: greedy-tree"),
    ("source", "12345", "1..4"),
    ("source", "1224", "1..4"),
    ("source", "", "1..4"),
    ("port_model", "two-port", "'all-port'"),
    ("port_model", "exchange", "all-port, one-port"),
    ("duplex", "double", "'full' or 'half'"),
    ("message_bytes", 0, "greater than or equal to 1"),
    ("message_bytes", 2**25 + 1, "less than or equal to 33554432"),
    ("message_bytes", "many", "integer"),
    ("message_bytes", 1.5, "integer"),
    ("messages", -1, "greater than or equal to 1"),
    ("messages", 2**31, "less than"),
    ("segments", 0, "or 'auto'"),
    ("segments", "some", "or 'auto'"),
    ("segments", 65, "64 bytes"),
    ("redundancy", 0, "greater than or equal to 1"),
    ("redundancy", 2, "one tree"),
    ("driver", "cloud", "'memory'"),
    ("ranks_per_host", 0, "or 'auto'"),
    ("ranks_per_host", "all", "or 'auto'"),
    ("clock", "sundial", "'steps'"),
    ("lateness_limit", 0, "greater than 0"),
    ("lateness_limit", 2, "less than or equal to 1"),
    ("lateness_limit", "5%", "number"),
    ("worst_lateness_limit", 0, "greater than 0"),
    ("worst_lateness_limit", "late", "number"),
    ("startup", "5", "with its unit"),
    ("startup", "-5ms", "a time from 0 to 1e+09s"),
    ("startup", "5 min", "5ms, 1.5us or 2s"),
    ("startup", 5, "with its unit"),
    ("startup", "1e999s", "with its unit"),
    ("startup", "\u0665ms", "with its unit"),
    ("per_byte", "", "with its unit"),
    ("per_byte", "inf", "with its unit"),
    ("packet_limit", 0, "greater than or equal to 1"),
    ("fault", "crash:1234@2", "tuple"),
    ("fault", ["explode:1234@2"], "KIND:WHERE@STEP with KIND one of: crash"),
    ("fault", ["crash"], "KIND:WHERE@STEP"),
    ("fault", ["crash:1234"], "as @STEP, counted from 1, such as crash:1234@2"),
    ("fault", ["crash:1234@0"], "counted from 1"),
    ("fault", ["crash:1234@-1"], "counted from 1"),
    ("fault", ["crash:1234@²"], "counted from 1"),
    ("fault", ["crash:1234@" + "9" * 5000], "counted from 1"),
    ("fault", ["crash:1234@2.5"], "counted from 1"),
    ("fault", ["crash:4444@2"], "there is no node '4444'"),
    ("fault", ["crash:@2"], "there is no node ''"),
    ("fault", ["crash:2134@2", "crash:2134@3"], "this node has crashed already"),
    (
        "fault",
        ["crash:1234@2-4"],
        "it happens in one step and has no end: crash:LABEL@STEP; recover:1234@4 ends a crash",
    ),
    ("fault", ["crash:2134@2", "hang:2134@3"], "this node has crashed already"),
    ("fault", ["recover:2134@3"], "this node has not crashed before that step"),
    ("fault", ["crash:2134@3", "recover:2134@3"], "this node has not crashed before that step"),
    ("fault", ["hang:2134@7-3"], "it ends in step 3, before it begins in step 7"),
    ("fault", ["hang:2134@3-"], "such as @3-3"),
    ("fault", ["hang:2134"], "as @STEP, counted from 1, such as hang:1234@2"),
    ("fault", ["down:1234~2134"], "as @STEP, counted from 1, such as down:1234~2134@2"),
    ("fault", ["loss:1234~2134:0.5@x"], "such as loss:1234~2134:0.2@2"),
    ("fault", ["down:1234@2"], "it names a link as A~B, both ways, or A>B, one way"),
    ("fault", ["down:1234~2134~3214@2"], "it names a link"),
    ("fault", ["down:1234~4321@2"], "no link joins 1234 and 4321; neighbours of 1234: 2134, 3214, 4231"),
    ("fault", ["down:1234~1234@2"], "no link joins"),
    ("fault", ["down:1234>9@2"], "there is no node '9'"),
    ("fault", ["up:1234>2134@2"], "this link is not down in that step"),
    ("fault", ["down:1234>2134@2-3", "up:1234~2134@5"], "this link is not down in that step"),
    ("fault", ["down:1234>2134@2", "up:2134>1234@5"], "this link is not down in that step"),
    ("fault", ["loss:1234~2134"], "its rate must be a number from 0 (never) to 1 (always), got ''"),
    ("fault", ["loss:1234~2134:1.5"], "its rate"),
    ("fault", ["loss:1234~2134:-1"], "its rate"),
    ("fault", ["corrupt:1234~2134:nan"], "its rate"),
    ("fault", ["duplicate:1234~2134:0,5"], "its rate"),
    ("fault", ["delay:1234~2134:0"], "its number of steps must be a whole number of at least 1, got '0'"),
    ("fault", ["delay:1234~2134:2ms"], "its number of steps"),
    ("fault", ["drop:1234>2134:@2"], "its number of the packet"),
    ("fault_knowledge", "rumours", "'none'"),
    ("seed", -1, "greater than or equal to 0"),
    ("seed", 2**63, "less than"),
    ("step_limit", 0, "greater than or equal to 1"),
    ("name", "../../elsewhere", "pattern"),
    ("name", "two words", "pattern"),
    ("name", ".hidden", "pattern"),
    ("name", "a\nb", "pattern"),
    ("name", "a/b", "pattern"),
    ("name", "", "pattern"),
]


@pytest.mark.parametrize(
    ("field", "value", "allowed"), BAD, ids=[f"{field}-{ascii(value)[:25]}" for field, value, _ in BAD]
)
def test_invalid_value_is_refused_with_the_allowed_ones(field: str, value: object, allowed: str) -> None:
    error = refused(**{field: value})
    assert error.field == field
    assert error.value == (value[-1] if field == "fault" and isinstance(value, list) else value)
    assert allowed in error.allowed


CONTRADICTORY = [
    (
        "star:4 broadcast flood driver=memory ranks_per_host=4",
        "ranks_per_host",
        "the memory driver has no hosts; leave it out",
    ),
    ("star:4 allgather rotated-trees source=1234", "source", "in allgather every node is a source; leave it out"),
    ("hypercube:3 broadcast flood source=1234", "source", "3 binary digits"),
    ("ej:2+3 broadcast greedy-tree", "algorithm", "it is defined for broadcast on star"),
    ("star:4 broadcast flood segments=auto", "segments", "has no formula for it; give a number"),
    ("star:4 broadcast flood clock=timed startup=0 per_byte=0", "startup", "packets take time"),
    ("star:4 broadcast flood clock=timed fault=crash:2134@2", "fault", "use --clock steps"),
    ("star:4 broadcast flood clock=timed duplex=half", "duplex", "use --clock steps"),
]


@pytest.mark.parametrize(("scenario", "field", "allowed"), CONTRADICTORY)
def test_contradictory_scenario_is_refused(scenario: str, field: str, allowed: str) -> None:
    error = refused(**fields(scenario))
    assert error.field == field
    assert allowed in error.allowed


# --- durations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5ms", 5e-3),
        ("1.5us", 1.5e-6),
        ("2s", 2.0),
        ("10 ns", 1e-8),
        ("0", 0.0),
        (0, 0.0),
        ("0s", 0.0),
        ("1e-3ms", 1e-6),
        ("1e+2s", 100.0),
    ],
    ids=repr,
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize(
    ("seconds", "text"), [(5e-3, "5ms"), (1.5e-6, "1.5us"), (2.0, "2s"), (1.0, "1s"), (1e-9, "1ns"), (0.1, "100ms")]
)
def test_durations_are_formatted_with_a_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(0, 1e9) | st.integers(0, 10**6).map(lambda number: parse_duration(f"{number}ns")))
def test_duration_round_trip(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


# --- faults ----------------------------------------------------------------------------------------------------------


def test_faults_take_effect_in_order_of_steps() -> None:
    star = parse_topology("star:4")
    faults = parse_faults(["crash:4321@3", "crash:1234@1", "crash:2134@3"], star)
    assert faults == (Crash(1, 0), Crash(3, star.rank("2134")), Crash(3, star.rank("4321")))


def test_label_with_commas() -> None:
    ej = parse_topology("ej:2+3^2")
    (fault,) = parse_faults(["crash:-1,0/0,1@12"], ej)
    assert fault == Crash(12, ej.rank("-1,0/0,1"))


EJ = "ej:2+3"
SPECS: list[tuple[str, tuple[Fault, ...]]] = [
    ("hang:-1,0@3-7", (Hang(3, 18, 7),)),
    ("hang:-1,0@3", (Hang(3, 18),)),
    ("byzantine:-1,0", (Byzantine(1, 18),)),
    ("byzantine:-1,0@2-2", (Byzantine(2, 18, 2),)),
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
    assert parse_faults([spec], ej) == faults


def test_link_may_come_up_in_one_direction() -> None:
    ej = parse_topology(EJ)
    faults = parse_faults(["up:-1,0>0,0@5", "down:0,0~-1,0@2", "crash:1,0@1", "recover:1,0@2", "crash:1,0@3"], ej)
    one = ej.rank("1,0")
    assert faults == (Crash(1, one), Recover(2, one), Down(2, 0, 3), Down(2, 18, 0), Crash(3, one), Up(5, 18, 0))


# --- sizes, truth values, capitals -----------------------------------------------------------------------------------

NUMBERS = [
    "message_bytes", "messages", "segments", "redundancy", "ranks_per_host", "startup", "per_byte", "lateness_limit",
    "packet_limit", "seed", "step_limit",
]  # fmt: skip


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", [True, False])
def test_booleans_are_not_numbers(field: str, value: bool) -> None:
    assert refused(**{field: value}).field == field


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", [10**30, "9" * 400, 1e300])
def test_every_size_has_a_bound(field: str, value: object) -> None:
    given = f"{value}s" if field in ("startup", "per_byte") else value
    assert refused(**{field: given}).field == field


def test_names_are_case_insensitive() -> None:
    given = {
        "topology": "Star:4", "collective": "Broadcast", "algorithm": "EDT", "port_model": "All-Port", "duplex": "FULL",
        "driver": "Memory", "clock": "Steps", "segments": "AUTO", "fault_knowledge": "None", "hang_by": "Pause",
    }  # fmt: skip
    small = {name: value.lower() for name, value in given.items()}
    assert make_scenario(given).model_dump(exclude={"topology"}) == make_scenario(small).model_dump(
        exclude={"topology"}
    )
    assert make_plan(make_scenario({**given, "segments": 1})).topology.name == "star:4"


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


@pytest.mark.parametrize(
    "faults",
    [
        "down:1234~2134@2-4 down:1234~2134@3-5 up:1234~2134@6",
        "down:1234~2134@2-10 down:1234~2134@3-4 up:1234~2134@6 up:1234~2134@8",
    ],
)
def test_up_without_an_interval_of_down_is_refused(faults: str) -> None:
    with pytest.raises(ScenarioError, match="this link is not down in that step"):
        parse_faults(faults.split(), parse_topology("star:4"))


@pytest.mark.parametrize("rate", ["1e-300", "1e-999", "0.00000000000000000001", "5e-17"])
@pytest.mark.parametrize("kind", ["loss", "corrupt", "duplicate"])
def test_a_rate_too_small_to_be_drawn_is_refused_with_the_limit(kind: str, rate: str) -> None:
    with pytest.raises(ScenarioError, match=r"at least 2\^-53"):
        parse_faults([f"{kind}:1234~2134:{rate}"], parse_topology("star:4"))

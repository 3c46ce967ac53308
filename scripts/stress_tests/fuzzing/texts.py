"""User input: names of networks and nodes, faults and fault sets, scenarios."""

import contextlib
import tomllib
from typing import Any

import tomli_w

from coordinator.history.stored.reading import parse_toml
from coordinator.planning.claims import run_claims
from coordinator.planning.plan import make_plan
from coordinator.scenario import model as scenario
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.fault_syntax import parse_faults
from emunode.errors import EmulatorError, ScenarioError
from emunode.faults.injector import Faults
from emunode.faults.kinds import KINDS, LinkFault, NodeFault, field_names, from_record, to_record
from emunode.model import Collective
from emunode.net import wire
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from stress_tests.fuzzing.source import Source, Target, drawn

TOPOLOGIES = [parse_topology(name) for name in ("star:4", "star:11", "hypercube:5", "ej:3+4", "ej:1+2^2")]


def fuzz_labels(data: bytes) -> None:
    """Names of networks and nodes: parsed uniquely, or refused with the allowed form."""
    if not data:
        return
    text = data[1:].decode("utf-8", "replace")
    with contextlib.suppress(ScenarioError):
        if data[0] & 1:
            topology = parse_topology(text)
            assert parse_topology(topology.name).name == topology.name
            return
        topology = TOPOLOGIES[(data[0] >> 1) % len(TOPOLOGIES)]
        rank = topology.rank(text)
        assert 0 <= rank < topology.order
        assert topology.rank(topology.label(rank)) == rank


def a_label(source: Source, topology: Topology) -> str:
    """Return one of the first nodes, nearly always."""
    if source.number(0, 15) == 15:
        return source.text(8)
    return topology.label(source.number(0, min(topology.order, 16) - 1))


def a_spec(source: Source, topology: Topology) -> str:
    """Return a fault specification that is valid or nearly valid."""
    if source.number(0, 31) == 31:
        return source.text(40)
    kind = source.pick(*KINDS)
    record = KINDS[kind]
    where = a_label(source, topology)
    if not issubclass(record, NodeFault):
        rank = source.number(0, min(topology.order, 16) - 1)
        peer = topology.neighbour(rank, source.number(0, topology.degree - 1))
        where = f"{topology.label(rank)}{source.pick('~', '>')}{topology.label(peer)}"
    for name in ("rate", "steps", "packet"):
        if name in field_names(record) or source.number(0, 31) == 31:
            where += ":" + source.pick("1", "0.5", ".25", "0", "2", "1e-3", "5e-324", "1.5", "", "x", "999999999")
    first = source.number(1, 6)
    where += source.pick("", f"@{first}", f"@{first}-{first + source.number(0, 4)}", f"@{first}-1", "@0", "@")
    return spoil(source, f"{kind}:{where}")


def spoil(source: Source, text: str) -> str:
    """Now and then, change a text in one place."""
    if source.number(0, 15) < 15:
        return text
    at = source.number(0, len(text))
    return text[:at] + source.text(3) + text[at + source.number(0, 2) :]


def fuzz_faults(data: bytes) -> None:
    """Faults and fault sets: their order does not matter, and every engine accepts them."""
    source = Source(data)
    topology = source.pick(*TOPOLOGIES)
    mode = source.number(0, 7)
    try:
        if mode == 0:
            specs = source.text(255).split("\n")
        elif mode == 1:
            fault_sets = parse_fault_sets(source.text(255))
            assert all(parse_fault_sets(fault_set.name) == [fault_set] for fault_set in fault_sets[:20])
            return
        else:
            specs = [a_spec(source, topology) for _ in range(source.number(1, 5))]
        faults = parse_faults(tuple(specs), topology)
    except ScenarioError:
        return
    assert faults == parse_faults(tuple(reversed(specs)), topology)
    frame = wire.encode_control("step", 1, [to_record(fault) for fault in faults])
    _, _, records = wire.decode_control(frame)
    assert tuple(from_record(record, topology) for record in records) == faults  # type: ignore[attr-defined]
    state = Faults(topology, 1)
    for step in range(1, 8):
        state.apply(fault for fault in faults if fault.step == step)
        for fault in faults:
            assert 1 <= fault.step <= fault.end
            rank = fault.sender if isinstance(fault, LinkFault) else fault.rank  # type: ignore[attr-defined]
            state.silent(rank, step)
            for port, segments, _ in state.crossings(step, rank, [(0, ((rank, -1, 0, step, b"payload"),))]):
                assert 0 <= port < topology.degree
                assert {len(segment) for segment in segments} == {5}


SMALL = (
    ("star:3", "broadcast", "flood"),
    ("star:4", "broadcast", "greedy-tree"),
    ("star:3", "scatter", "list-schedule"),
    ("star:4", "allgather", "rotated-trees"),
    ("hypercube:3", "allgather", "sbt"),
    ("hypercube:3", "broadcast", "sbt"),
    ("ej:1+2", "broadcast", "improved"),
)
SAMPLES: dict[str, tuple[object, ...]] = {
    "topology": ("star:3", "hypercube:4", "ej:2+3^2", "ring:3", "star:1", "star:99"),
    "collective": (*map(str, Collective), "sing"),
    "algorithm": ("flood", "sbt", "edt", "greedy-tree", "x"),
    "source": ("123", "000", "0,0", "321", "", "x"),
    "port_model": ("all-port", "one-port", "exchange", "x"),
    "duplex": ("full", "half"),
    "message_bytes": (1, 7, 64, 2**25, 2**25 + 1),
    "messages": (1, 2, 3, 2**31 - 1, 2**31),
    "segments": (1, 2, "auto", "many"),
    "redundancy": (1, 2, 3, 99),
    "driver": ("memory", "local", "docker", "join"),
    "ranks_per_host": (1, 2, 1000, "auto"),
    "netns": ("auto", "always", "never", True, False),
    "hang_by": ("pause", "disconnect"),
    "clock": ("steps", "timed"),
    "startup": ("5ms", "1.5us", "0", 0, "2 s", "1e300s", "1e999s", "5"),
    "per_byte": ("1us", "0", "0.1ns", "1e-300s"),
    "lateness_limit": (0.05, 1, 1.0, 0, 5e-324, "0.5"),
    "packet_limit": (1, 64, 2**31 - 1),
    "link_capacity": (1, 2, 2**31 - 1, "auto", "unlimited", "many"),
    "fault": (
        ["crash:123@2"],
        ["crash:213@1", "recover:213@3"],
        ["loss:123~213:0.5"],
        ["crash=1@1"],
        [],
        "crash",
        [[]],
    ),
    "fault_knowledge": ("none", "neighbours", "all", "detect:1", "detect:2:doubling", "detect:0"),
    "reliable": (True, False, "true"),
    "retransmit_after": (1, 2, 3, "5ms", 0),
    "attempts": (1, 20, 1000, 1001),
    "window": (1, 4, 1024, 0),
    "back_off": (True, False),
    "repair": ("next-port", "switch-tree", "spanning-tree", "re-root", "edges", "nothing"),
    "repair_after": (1, 3, 0),
    "on_failure": ("continue", "agree", "shrink", "panic"),
    "agreement_steps": (1, 5, 0),
    "seed": (0, 7, 2**63 - 1, 2**63),
    "step_limit": (1, 100, 100_000),
    "name": ("a", "a-b.c", "../x", "", ".x", "a\n"),
}


def toml_value(source: Source, depth: int = 2) -> Any:
    """Return an arbitrary TOML value."""
    match source.number(0, 8 if depth else 5):
        case 0 | 1:
            return source.number(-2, 8)
        case 2:
            return source.number(-(2**63), 2**64)
        case 3:
            return source.pick(True, False, 0.0, -0.0, 1.5, float("nan"), float("inf"))
        case 4 | 5:
            return source.text(12)
        case 6 | 7:
            return [toml_value(source, depth - 1) for _ in range(source.number(0, 3))]
        case _:
            return {source.text(4): toml_value(source, depth - 1) for _ in range(source.number(0, 2))}


def some_keys(source: Source) -> dict[str, Any]:
    """Return keys of a scenario that are valid or nearly valid."""
    values: dict[str, Any] = dict(zip(("topology", "collective", "algorithm"), source.pick(*SMALL), strict=True))
    for _ in range(source.number(0, 5)):
        key = source.pick(*SAMPLES) if source.number(0, 31) < 31 else source.text(12)
        sampled = key in SAMPLES and source.number(0, 7) < 7
        values[key] = source.pick(*SAMPLES[key]) if sampled else toml_value(source)
    if source.number(0, 15) == 15:
        values.pop(source.pick(*values))
    return values


def scenario_of(text: str) -> dict[str, Any]:
    """Return the keys in the text of a scenario file."""
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ScenarioError("scenario", None, f"it is not TOML: {error}") from None


def fuzz_scenario(data: bytes) -> None:
    """Scenario files and variables: TOML, then every key; of small networks a plan."""
    source = Source(data)
    mode = source.number(0, 7)
    try:
        if mode == 0:
            values = scenario_of(source._data[1:].decode("utf-8", "replace"))
        elif mode == 1:
            texts = {scenario.VARIABLE_PREFIX + key.upper(): str(value) for key, value in some_keys(source).items()}
            values = scenario.scenario_from_environment(texts)
        else:
            values = scenario_of(spoil(source, tomli_w.dumps(some_keys(source))))
        made = scenario.make_scenario(values)
    except ScenarioError:
        return
    assert scenario.make_scenario(tomllib.loads(scenario.dump_scenario(made))) == made
    if (
        any(made.topology == topology for topology, _, _ in SMALL)
        and made.messages < 4
        and (made.message_bytes or 0) < 4096
    ):
        with contextlib.suppress(EmulatorError):
            plan = make_plan(made)
            assert plan.name
            run_claims(plan)


def label_seeds() -> list[bytes]:
    """Return nodes of some networks, and networks."""
    labels = [b"\x003142", b"\x023.1.10.2.4.5.6.7.8.9.11", b"\x0601101", b"\x061,-2", b"\x081,0/0,1"]
    return labels + [b"\x01" + name for name in (b"star:5", b"hypercube:7", b"ej:3+4", b"ej:3+4^3")]


def fault_seeds() -> list[bytes]:
    """Return examples of each kind, and fault sets."""
    texts = (
        "crash:3142@2\nrecover:3142@4",
        "loss:1234~2134:0.5@1-3\ndelay:1234>2134:2",
        "down:1234~2134@2\nup:1234~2134@4",
        "hang:1234@1-2\nbyzantine:2134\ndrop:1234>2134:3@2\ncorrupt:1234~2134:1e-3\nduplicate:1234~3214:1",
    )
    fault_sets = ("crash=1@2", "loss=3:0.3@1", "down=2@2-3,hang=1@1-2")
    written = [b"\0\0" + bytes([len(text)]) + text.encode() for text in texts]
    return [*written, *(b"\0\1" + bytes([len(text)]) + text.encode() for text in fault_sets), *drawn(64)]


def scenario_seeds() -> list[bytes]:
    """Return two files, and keys."""
    return [
        b'\0topology = "star:5"\ncollective = "broadcast"\nalgorithm = "greedy-tree"\nfault = ["crash:21345@2"]\n',
        b'\0topology="ej:3+4"\ncollective="scatter"\nalgorithm="x"\nstartup="5ms"\nsegments="auto"\nseed=3',
        *drawn(128),
    ]


TARGETS = {
    "labels": Target(lambda: fuzz_labels, 2_500_000, label_seeds),
    "faults": Target(lambda: fuzz_faults, 300_000, fault_seeds),
    "scenario": Target(lambda: fuzz_scenario, 300_000, scenario_seeds),
}

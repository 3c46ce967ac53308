"""Johnsson and Ho's algorithms as a user runs them: every name and port model, faults, the best packets, bad input."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import combinations
from math import sqrt
from random import Random

import pytest

from coordinator.execution.run import RunResult
from emunode.algorithms.base import Algorithm
from emunode.algorithms.hypercube.broadcast import CubeBroadcast
from emunode.algorithms.hypercube.costs import Form
from emunode.algorithms.hypercube.schedule import CubeRouting
from emunode.algorithms.registry import make_algorithm, registered
from emunode.errors import ScenarioError
from emunode.model import Collective, PortModel
from tests.hypercube_support import cube, spec
from tests.support import failures, run_scenario

ALGORITHMS = [entry for _, entry in registered() if entry.family == "hypercube"]
NAMES = [(entry.collective, entry.name) for entry in ALGORITHMS]
PAIRS = [(entry.collective, entry.name, ports) for entry in ALGORITHMS for ports in entry.port_models]


def identify(value: object) -> str:
    return str(value)


def entry_of(collective: Collective, name: str) -> type[Algorithm]:
    (found,) = (entry for entry in ALGORITHMS if (entry.collective, entry.name) == (collective, name))
    return found


def port_models(collective: Collective, name: str) -> tuple[PortModel, ...]:
    return entry_of(collective, name).port_models


def cube_run(n: int, collective: str, algorithm: str, ports: str = "all-port", **values: object) -> RunResult:
    wanted: Mapping[str, object] = {
        "topology": f"hypercube:{n}",
        "collective": str(collective),
        "algorithm": algorithm,
        "port_model": str(ports),
        **values,
    }
    return run_scenario(None, **wanted)


def claim(result: RunResult, name: str) -> list[str]:
    """The sources of the claims about one metric."""
    return [judgement.claim.source for judgement in result.judgements if judgement.claim.name == name]


# --- every name ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("collective", "name", "ports"), PAIRS, ids=identify)
def test_every_claim_holds(collective: Collective, name: str, ports: PortModel) -> None:
    result = cube_run(4, collective, name, ports, message_bytes=48)
    assert result.verdict == "holds", failures(result)
    claims = {judgement.claim.name for judgement in result.judgements}
    assert {"steps", "segments", "intact_deliveries", "startups", "transfer_bytes", "virtual_seconds"} <= claims


@pytest.mark.parametrize(("collective", "name"), NAMES, ids=identify)
def test_every_claim_holds_of_uneven_parts(collective: Collective, name: str) -> None:
    """Several messages that n does not divide, packets that do not fit, another source."""
    ports = port_models(collective, name)[-1]
    source = {} if collective in (Collective.ALLGATHER, Collective.ALLTOALL) else {"source": "101"}
    result = cube_run(3, collective, name, ports, message_bytes=31, messages=2, segments=2, packet_limit=9, **source)
    assert result.verdict == "holds", failures(result)
    sizes = ("15 or 16", "7 or 8", "5 or 6")
    assert any(f"parts of {size} bytes" in source for source in claim(result, "startups") for size in sizes)


@pytest.mark.parametrize(("collective", "name"), NAMES, ids=identify)
def test_sockets_give_the_same_history(collective: Collective, name: str) -> None:
    ports = port_models(collective, name)[0]
    in_memory = cube_run(3, collective, name, ports, message_bytes=24)
    on_sockets = cube_run(3, collective, name, ports, message_bytes=24, driver="local")
    assert on_sockets.verdict == "holds", failures(on_sockets)
    assert on_sockets.summary["journal_hash"] == in_memory.summary["journal_hash"]


@pytest.mark.parametrize(
    ("collective", "name", "ports"),
    [
        ("broadcast", "nesbt", "exchange"),
        ("scatter", "sbt-gray", "send-or-receive"),
        ("scatter", "sbntc", "all-port"),
        ("alltoall", "sbt", "exchange"),
    ],
)
def test_the_papers_own_machine(collective: str, name: str, ports: str) -> None:
    """The Intel iPSC/d7 had 128 nodes."""
    values: dict[str, object] = {"message_bytes": 21, "segments": 5 if collective == "broadcast" else 1}
    in_memory = cube_run(7, collective, name, ports, **values)
    on_sockets = cube_run(7, collective, name, ports, driver="local", **values)
    assert on_sockets.verdict == "holds", failures(on_sockets)
    assert on_sockets.summary["journal_hash"] == in_memory.summary["journal_hash"]


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("collective", [Collective.SCATTER, Collective.GATHER, Collective.ALLTOALL], ids=identify)
def test_loads_in_closed_form_are_those_of_the_routes(n: int, collective: Collective) -> None:
    for entry in ALGORITHMS:
        if entry.collective is not collective or not issubclass(entry, CubeRouting) or entry.name.endswith("-fifo"):
            continue
        if (n, entry.name) == (2, "sbt-reflections"):
            continue  # refused there: no even k < n divides 2n
        for ports in entry.port_models:
            algorithm = make_algorithm(cube(f"hypercube:{n}"), spec(n, collective, entry.name, ports))
            assert isinstance(algorithm, CubeRouting)
            assert list(algorithm.loads) == algorithm.found_loads()
            assert algorithm.hops == sum(1 for _ in algorithm.crossings()) * algorithm.copies // algorithm.count


# --- the comparison of section 4.2 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 5])
def test_edge_disjoint_trees_are_n_times_as_fast(n: int) -> None:
    """Table 6, with so many packets that the n cycles of the last one do not count."""
    packets = 40 * n
    values = {"message_bytes": 8 * packets, "segments": packets, "packet_limit": 8}
    seconds = {}
    for name in ("sbt", "tcbt", "nesbt"):
        result = cube_run(n, "broadcast", name, "exchange", **values)
        assert result.verdict == "holds", failures(result)
        seconds[name] = float(str(result.summary["virtual_seconds"]))
    assert 0.96 * n < seconds["sbt"] / seconds["nesbt"] < n
    assert 2.9 < seconds["tcbt"] / seconds["nesbt"] < 3.1


# --- the best packets ------------------------------------------------------------------------------------------------

PIPELINED: dict[tuple[str, PortModel], Callable[[int], tuple[int, int, int]]] = {
    ("brg", PortModel.EXCHANGE): lambda n: (2, 2**n - 3, 1),
    ("brg", PortModel.ONE_PORT): lambda n: (1, 2**n - 2, 1),
    ("sbt", PortModel.ALL_PORT): lambda n: (1, n - 1, 1),
    ("tcbt", PortModel.EXCHANGE): lambda n: (3, 2 * n - 5, 1),
    ("tcbt", PortModel.ONE_PORT): lambda n: (2, 2 * n - 4, 1),
    ("tcbt", PortModel.ALL_PORT): lambda n: (1, n - 1, 1),
    ("nesbt", PortModel.EXCHANGE): lambda n: (1, n, 1),
    ("nesbt", PortModel.SEND_OR_RECEIVE): lambda n: (2, n - 1, 1),
    ("nesbt", PortModel.ALL_PORT): lambda n: (1, n, n),
}


@pytest.mark.parametrize(("name", "ports"), PIPELINED, ids=identify)
@pytest.mark.parametrize("n", range(3, 9))
def test_segments_auto_take_the_best_packet(name: str, ports: PortModel, n: int) -> None:
    """B_opt = sqrt(a M tau / (b t_c)) and T_min = (sqrt(a M t_c) + sqrt(b tau))^2, tables 4 and 5; M: the part of a tree."""
    a, b, share = PIPELINED[name, ports](n)
    size, startup, per_byte = 60_000, 2e-3, 1e-6
    entry = entry_of(Collective.BROADCAST, name)
    assert issubclass(entry, CubeBroadcast)
    form = entry.form(n, ports)
    assert form == Form(a, b, share)
    part = size / share
    best = sqrt(a * part * startup / (b * per_byte))
    assert part / form.best_packets(part, startup, per_byte) == pytest.approx(best)
    least = (sqrt(a * part * per_byte) + sqrt(b * startup)) ** 2
    assert form.seconds(part / best, part, startup, per_byte) == pytest.approx(least)

    wanted = spec(n, Collective.BROADCAST, name, ports, message_bytes=size)
    segments = entry.auto_segments(cube(f"hypercube:{n}"), wanted, startup, per_byte)
    assert abs(segments / share - part / best) <= 1

    def seconds(packets: int) -> float:
        return form.cycles(packets) * (startup + -(-size // (share * packets)) * per_byte)

    assert least <= seconds(segments // share) <= 1.001 * min(map(seconds, range(1, 1000)))


def test_a_run_with_segments_auto() -> None:
    result = cube_run(5, "broadcast", "nesbt", "exchange", message_bytes=20_000, segments="auto", startup="1ms")
    assert result.verdict == "holds", failures(result)
    assert result.summary["segments"] == 31 * 10  # P = sqrt(n M t_c / tau)
    assert any("T_min" in source for source in claim(result, "virtual_seconds"))


@pytest.mark.parametrize(("limit", "packets"), [(20_000, 10), (2000, 10), (1000, 20), (999, 21)])
def test_segments_auto_respect_the_packet_limit(limit: int, packets: int) -> None:
    """Packets of the best size, or as large as they may be."""
    result = cube_run(
        5, "broadcast", "nesbt", "exchange", message_bytes=20_000, segments="auto", startup="1ms", packet_limit=limit
    )
    assert result.verdict == "holds", failures(result)
    assert result.summary["segments"] == 31 * packets


@pytest.mark.parametrize(("startup", "per_byte", "segments"), [("0", "1us", 40), ("1ms", "0", 1), ("0", "0", 1)])
def test_segments_auto_where_something_costs_nothing(startup: str, per_byte: str, segments: int) -> None:
    values = {"message_bytes": 40, "segments": "auto", "startup": startup, "per_byte": per_byte}
    result = cube_run(3, "broadcast", "nesbt", "exchange", **values)
    assert result.verdict == "holds", failures(result)
    assert result.summary["segments"] == 7 * segments


@pytest.mark.parametrize(("collective", "name", "ports"), PAIRS, ids=identify)
def test_segments_auto_work_everywhere(collective: Collective, name: str, ports: PortModel) -> None:
    """Nothing is gained by cutting where all that waits goes at once."""
    wanted = spec(3, collective, name, ports, message_bytes=2)
    entry = entry_of(collective, name)
    segments = entry.auto_segments(cube("hypercube:3"), wanted, 1e-3, 1e-6)
    assert segments >= 1
    if collective not in (Collective.BROADCAST, Collective.REDUCE):
        assert segments == 1


def test_packets_of_several_blocks_in_gray_code_order() -> None:
    """B = 2^b M: 2^(n-b) - 1 + b start-ups, one for every step."""
    for b in range(5):
        result = cube_run(5, "scatter", "sbt-gray", "exchange", message_bytes=10, packet_limit=10 << b)
        assert result.verdict == "holds", failures(result)
        assert result.summary["steps"] == result.summary["startups"] == 2 ** (5 - b) - 1 + b
        assert result.summary["transfer_bytes"] == 31 * 10


def test_packets_of_parts_or_blocks_without_a_clock() -> None:
    """SBnTc, farthest first: N - 1 steps of M/n, or ceil((N-1)/n) of M, where one path to a node takes 5 (erratum)."""
    steps = {}
    for name, limit in (("sbntc-fifo", 3), ("sbntc-fifo", 12), ("sbnt-fifo", 12), ("sbt-fifo", 12)):
        result = cube_run(4, "scatter", name, message_bytes=12, packet_limit=limit)
        assert result.verdict == "holds", failures(result)
        assert result.summary["startups"] == result.summary["steps"]
        steps[name, limit] = result.summary["steps"]
    assert list(steps.values()) == [15, 4, 5, 8]


# --- faults ----------------------------------------------------------------------------------------------------------


def crash(*ranks: int, n: int, step: int = 1) -> list[str]:
    return [f"crash:{rank:0{n}b}@{step}" for rank in ranks]


@pytest.mark.parametrize("ports", ["exchange", "send-or-receive", "all-port"])
def test_two_faults_of_q3_leave_everybody_served(ports: str) -> None:
    """All pairs of nodes under the paper's own port model; some under the others."""
    for faulty in combinations(range(1, 8 if ports == "exchange" else 4), 2):
        faults = crash(*faulty, n=3)
        result = cube_run(3, "broadcast", "nesbt", ports, redundancy=3, segments=2, fault=faults)
        assert result.verdict == "holds", (faulty, failures(result))
        assert result.summary["delivery_ratio"] == 1.0


@pytest.mark.parametrize(
    ("collective", "name", "ports"),
    [
        ("broadcast", "nesbt", "one-port"),
        ("broadcast", "nesbt-fifo", "exchange"),
        ("scatter", "nesbt", "all-port"),
        ("gather", "nesbt", "all-port"),
        ("allgather", "nesbt", "exchange"),
        ("allgather", "nesbt", "all-port"),
        ("alltoall", "nesbt", "exchange"),
        ("alltoall", "nesbt-rbf", "all-port"),
    ],
)
def test_redundancy_serves_the_healthy(collective: str, name: str, ports: str) -> None:
    """Some faults fewer than trees carry each message, at any step; the claims speak of the healthy ranks."""
    draw = Random(f"{collective} {name} {ports}")
    for redundancy in (2, 3, 4):
        faults = [
            spec
            for rank in draw.sample(range(1, 16), redundancy - 1)
            for spec in crash(rank, n=4, step=draw.randint(1, 6))
        ]
        result = cube_run(4, collective, name, ports, redundancy=redundancy, fault=faults, message_bytes=8)
        assert result.verdict == "holds", (faults, failures(result))
        assert any(f"survives {redundancy - 1} faults" in judgement.claim.source for judgement in result.judgements)


@pytest.mark.parametrize(("name", "ports"), [("nesbt", "send-or-receive"), ("nesbt", "exchange"), ("tcbt", "exchange")])
def test_whom_a_crash_cuts_off_the_trees_tell(name: str, ports: str) -> None:
    """Without redundancy a part lost in a broken tree is lost; exactly which ranks miss something is a claim."""
    for rank in range(1, 8):
        for step in (1, 4):
            result = cube_run(3, "broadcast", name, ports, segments=5, fault=crash(rank, n=3, step=step))
            (served,) = (found for found in result.judgements if found.claim.name == "intact_deliveries")
            assert served.measured == served.claim.predicted
            assert result.verdict == ("holds" if served.measured else "undecided")


def test_a_fault_on_sockets() -> None:
    values = {"redundancy": 2, "segments": 3, "fault": crash(5, n=3, step=2)}
    in_memory = cube_run(3, "broadcast", "nesbt", "exchange", **values)
    on_sockets = cube_run(3, "broadcast", "nesbt", "exchange", driver="local", **values)
    assert on_sockets.verdict == "holds", failures(on_sockets)
    assert on_sockets.summary["journal_hash"] == in_memory.summary["journal_hash"]
    assert on_sockets.summary["delivery_ratio"] == 1.0


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"topology": "hypercube:1"}, "topology", "n >= 2"),
        ({"packet_limit": 0}, "packet_limit", "greater than or equal to 1"),
        ({"packet_limit": 2.5}, "packet_limit", "integer"),
        ({"algorithm": "sbnt"}, "algorithm", "brg, nrbrg, sbt, tcbt, nrsbt, nesbt, nesbt-fifo"),
        ({"algorithm": "sbnt"}, "algorithm", "defined for scatter on hypercube and gather on hypercube and"),
        ({"algorithm": "nrbrg", "port_model": "exchange"}, "port_model", "defined for: all-port"),
        ({"collective": "alltoall", "algorithm": "tcbt", "port_model": "exchange"}, "port_model", "all-port"),
        ({"collective": "allgather", "algorithm": "brg"}, "port_model", "exchange, one-port"),
        ({"algorithm": "nrsbt", "message_bytes": 3}, "message_bytes", "at least 4 bytes"),
        ({"algorithm": "nesbt", "redundancy": 5}, "redundancy", "on 1..4 trees"),
        ({"algorithm": "sbt", "redundancy": 2}, "redundancy", "on one tree"),
        ({"collective": "reduce", "redundancy": 2}, "redundancy", "on one tree"),
        ({"collective": "allgather", "algorithm": "sbt", "duplex": "half"}, "duplex", "full-duplex"),
        ({"duplex": "half"}, "duplex", "full-duplex"),
    ],
)
def test_bad_input_names_what_is_defined(values: dict[str, object], field: str, says: str) -> None:
    scenario = {"topology": "hypercube:4", "collective": "broadcast", "algorithm": "nesbt", **values}
    with pytest.raises(ScenarioError) as raised:
        run_scenario(None, **scenario)
    assert raised.value.field == field
    assert says in str(raised.value)


@pytest.mark.parametrize("name", ["sbt", "nrsbt", "brg", "nesbt"])
def test_half_duplex_links_carry_what_goes_one_way(name: str) -> None:
    ports = "send-or-receive"
    result = cube_run(4, "broadcast", name, ports, duplex="half", segments=3)
    assert result.verdict == "holds", failures(result)


def test_parts_of_a_message_that_n_does_not_divide() -> None:
    result = cube_run(3, "scatter", "nrsbt", message_bytes=10)
    assert result.verdict == "holds", failures(result)
    assert any(
        "3 parts of 3 or 4 bytes, as 3 does not divide 10" in source for source in claim(result, "transfer_bytes")
    )
    even = cube_run(3, "scatter", "nrsbt", message_bytes=9)
    assert Fraction(str(even.summary["transfer_bytes"])) == Fraction(7, 3) * 9

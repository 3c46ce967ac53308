"""Johnsson and Ho's algorithms: loads in closed form, the comparison of their table 6, and the best packet sizes."""

from math import sqrt

import pytest

from coordinator.planning.claims import run_claims
from emunode.algorithms.base import Algorithm
from emunode.algorithms.hypercube.broadcast import CubeBroadcast
from emunode.algorithms.hypercube.costs import CycleForm
from emunode.algorithms.hypercube.schedule import CubeRouting
from emunode.algorithms.registry import make_algorithm, registered
from emunode.model import Collective, PortModel
from tests.helpers.hypercube_support import cube, golden, spec
from tests.helpers.scenarios import Case

ALGORITHMS = [entry for _, entry in registered() if entry.family == "hypercube"]
PAIRS = [(entry.collective, entry.name, ports) for entry in ALGORITHMS for ports in entry.port_models]


def identify(value: object) -> str:
    return str(value)


def entry_of(collective: Collective, name: str) -> type[Algorithm]:
    (found,) = (entry for entry in ALGORITHMS if (entry.collective, entry.name) == (collective, name))
    return found


# --- every name ------------------------------------------------------------------------------------------------------


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


# --- the best packets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", golden("pipelined"), ids=lambda row: "-".join([*row.values()][:3]))
def test_segments_auto_take_the_best_packet(row: dict[str, str]) -> None:
    """B_opt = sqrt(a M tau / (b t_c)) and T_min = (sqrt(a M t_c) + sqrt(b tau))^2, tables 4 and 5; M: the part of a tree."""
    name, ports = row["algorithm"], PortModel(row["port_model"])
    n, a, b, share = (int(row[column]) for column in ("n", "per_packet", "beside", "share"))
    size, startup, per_byte = 60_000, 2e-3, 1e-6
    entry = entry_of(Collective.BROADCAST, name)
    assert issubclass(entry, CubeBroadcast)
    form = entry.form(n, ports)
    assert form == CycleForm(a, b, share)
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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("collective", "name", "ports"), PAIRS, ids=identify)
def test_segments_auto_work_everywhere(collective: Collective, name: str, ports: PortModel) -> None:
    """Nothing is gained by cutting where all that waits goes at once."""
    wanted = spec(3, collective, name, ports, message_bytes=2)
    entry = entry_of(collective, name)
    segments = entry.auto_segments(cube("hypercube:3"), wanted, 1e-3, 1e-6)
    assert segments >= 1
    # An allreduce over the trees of one root takes the number of its broadcast.
    if collective not in (Collective.BROADCAST, Collective.REDUCE) and not name.endswith("-rooted"):
        assert segments == 1


def test_parts_of_a_message_that_n_does_not_divide() -> None:
    uneven = spec(3, Collective.SCATTER, "nrsbt", PortModel.ALL_PORT, message_bytes=10)
    sources = [claim.source for claim in make_algorithm(cube("hypercube:3"), uneven).claims()]
    assert any("3 parts of 3 or 4 bytes, as 3 does not divide 10" in source for source in sources)


@pytest.mark.parametrize(("line", "measured", "predicted", "parts"), [
    ("reduce sbt segments=2 message_bytes=12", 28, 32, "2 parts of 4 or 8 bytes, as 2 does not divide 3 numbers"),
    ("reduce nrsbt message_bytes=40", 48, 48, "3 parts of 12 or 16 bytes, as 3 does not divide 10 numbers"),
])  # fmt: skip
def test_numbers_are_not_cut_apart(line: str, measured: int, predicted: int, parts: str) -> None:
    """The first: 8 + 8 + 8 + 4 bytes over the four steps of two segments. The second: three steps of the longest part."""
    case = Case(f"hypercube:3 {line} values=float32")
    (claim,) = (each for each in run_claims(case.plan).kept if (each.name, each.relation) == ("transfer_bytes", "<="))
    assert (case.run.conclusion.metrics["transfer_bytes"], claim.predicted) == (measured, predicted)
    assert claim.source.endswith(parts)
    assert case.run.verdict == "holds"


def test_automatic_segments_have_a_number_each() -> None:
    """Free start-ups make single elements best: a message of 3 float64 has 3 segments, not 24."""
    case = Case("hypercube:3 reduce sbt values=float64 message_bytes=24 segments=auto startup=0")
    assert case.plan.algorithm.segments_per_message == 3

"""Runs keep all claims, those about structure and virtual time included; combinations that cannot work are refused.

`test_conformance` runs every combination of port model, duplex, messages, segments and redundancy without an engine. Here
every algorithm makes one complete run for each of its port models, with one of these variants in turn.
"""

from zlib import crc32

import pytest

from coordinator.results.claims import Judgement
from emunode.algorithms.base import Algorithm
from emunode.errors import ScenarioError
from emunode.model import Duplex
from tests.mutation_support import CASES, SMALL, case_name
from tests.support import failures, run_scenario

VARIANTS = (
    {"messages": 3, "message_bytes": 36},
    {"messages": 4, "message_bytes": 35, "redundancy": 2},
    {"segments": 2, "message_bytes": 37},
    {"messages": 6, "message_bytes": 36, "duplex": Duplex.HALF},
)


@pytest.mark.parametrize(
    ("family", "entry"),
    [pytest.param(*case, id=case_name(case)) for case in CASES if not case[1].negative_control],
)
def test_what_runs_keeps_its_claims(family: str, entry: type[Algorithm]) -> None:
    first = crc32(entry.name.encode())
    for number, port_model in enumerate(entry.port_models, first):
        scenario = {"topology": SMALL[family], "collective": entry.collective, "algorithm": entry.name}
        assert ran_with_its_claims({**scenario, "port_model": port_model}, number)


def ran_with_its_claims(scenario: dict[str, object], number: int) -> bool:
    """Run the first variant from `number` on that the algorithm accepts, and check its claims."""
    for place in range(len(VARIANTS)):
        variant = VARIANTS[(number + place) % len(VARIANTS)]
        try:
            result = run_scenario(None, **scenario, **variant)
        except ScenarioError:
            continue
        assert not failures(result), variant
        return True
    return False


@pytest.mark.parametrize(
    ("topology", "collective", "algorithm", "port_model"),
    [
        ("hypercube:3", "scatter", "nesbt", "all-port"),
        ("hypercube:3", "gather", "nesbt", "all-port"),
        ("hypercube:3", "allgather", "brg-ring", "all-port"),
        ("ej:2+3", "broadcast", "flood", "all-port"),
    ],
)
def test_two_way_schedules_need_full_duplex_links(
    topology: str, collective: str, algorithm: str, port_model: str
) -> None:
    scenario = {"topology": topology, "collective": collective, "algorithm": algorithm, "port_model": port_model}
    with pytest.raises(ScenarioError, match="needs full-duplex links") as error:
        run_scenario(None, **scenario, duplex="half")
    assert (error.value.field, error.value.value) == ("duplex", "half")
    assert not failures(run_scenario(None, **scenario))


@pytest.mark.parametrize("topology", ["star:4", "hypercube:3"])
def test_flooding_keeps_to_half_duplex_links_where_no_cycle_is_odd(topology: str) -> None:
    scenario = {"topology": topology, "collective": "broadcast", "algorithm": "flood", "messages": 3}
    assert not failures(run_scenario(None, **scenario, duplex="half"))


@pytest.mark.parametrize("algorithm", ["nrsbt", "nrbrg"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_message_too_small_for_its_parts_is_blamed_itself(algorithm: str, size: int) -> None:
    scenario = {"topology": "hypercube:3", "collective": "broadcast", "algorithm": algorithm}
    with pytest.raises(ScenarioError, match="at least 3 bytes") as error:
        run_scenario(None, **scenario, message_bytes=size)
    assert (error.value.field, error.value.value) == ("message_bytes", size)
    assert not failures(run_scenario(None, **scenario, message_bytes=3))


def test_too_many_segments_are_blamed_where_fewer_would_fit() -> None:
    scenario = {"topology": "hypercube:3", "collective": "broadcast", "algorithm": "nrsbt", "message_bytes": 8}
    with pytest.raises(ScenarioError, match="at most 2 segments for each of 3 parts") as error:
        run_scenario(None, **scenario, segments=3)
    assert (error.value.field, error.value.value) == ("segments", 3)
    assert not failures(run_scenario(None, **scenario, segments=2))


# Time: bounds that are maxima, and T_min with several messages.


def number(judgement: Judgement) -> float:
    """The prediction of a claim that has one number."""
    predicted = judgement.claim.predicted
    assert not isinstance(predicted, tuple)
    return predicted


@pytest.mark.parametrize(
    ("algorithm", "port_model", "ratio"),
    [
        ("rotated-trees", "all-port", 1.115),
        ("rotated-trees", "one-port", 2.676),
    ],
)
def test_lemma_2_bounds_by_the_larger_term(algorithm: str, port_model: str, ratio: float) -> None:
    """Both terms of Tseng and Sheu's lemma bind: D_n Ts, and (n!-1) m Tc over n-1 links or one."""
    result = run_scenario(
        topology="star:4", collective="allgather", algorithm=algorithm, port_model=port_model, message_bytes=60
    )
    (bound,) = [j for j in result.judgements if j.claim.name == "virtual_seconds" and j.claim.relation == ">="]
    startups = 4 if port_model == "all-port" else 5  # D_n; ceil(log2 24)
    links = 3 if port_model == "all-port" else 1
    assert bound.claim.predicted == pytest.approx(max(startups * 1e-3, 23 * 60 / links * 1e-6))
    assert bound.ratio == pytest.approx(ratio)


@pytest.mark.parametrize("algorithm", ["hamiltonian-cycle", "rotated-hamiltonian", "mbst", "rotated-trees"])
@pytest.mark.parametrize(("startup", "per_byte"), [("1ms", "1us"), ("1us", "1ms"), ("0s", "1us"), ("1ms", "0s")])
def test_no_allgather_claims_a_sum_of_bounds(algorithm: str, startup: str, per_byte: str) -> None:
    port_model = "one-port" if algorithm == "hamiltonian-cycle" else "all-port"
    result = run_scenario(
        topology="star:4", collective="allgather", algorithm=algorithm, port_model=port_model, message_bytes=60,
        startup=startup, per_byte=per_byte,
    )  # fmt: skip
    bounds = {j.claim.name: number(j) for j in result.judgements if j.claim.relation == ">="}
    seconds = {"1ms": 1e-3, "1us": 1e-6, "0s": 0.0}
    terms = (seconds[startup] * bounds["startups"], seconds[per_byte] * bounds["transfer_bytes"])
    assert bounds["virtual_seconds"] == pytest.approx(max(terms))
    assert not failures(result)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@pytest.mark.parametrize("messages", range(1, 10))
@pytest.mark.parametrize("per_byte", ["0s", "1us", "1ms"])
def test_t_min_of_nesbt_counts_packets_of_a_tree(collective: str, messages: int, per_byte: str) -> None:
    result = run_scenario(
        topology="hypercube:4", collective=collective, algorithm="nesbt", messages=messages, per_byte=per_byte
    )
    assert not failures(result)
    (least,) = [number(j) for j in result.judgements if "T_min" in j.claim.source]
    if messages % 4 == 0:  # every tree carries messages / 4 packets, as many as the bound allows
        seconds = {"0s": 0.0, "1us": 1e-6, "1ms": 1e-3}[per_byte]
        packets = messages // 4
        whole = (packets + 4) * (1e-3 + 1024 * seconds)
        assert least == pytest.approx(whole, rel=1e-9) or least < whole


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@pytest.mark.parametrize("port_model", ["exchange", "send-or-receive"])
@pytest.mark.parametrize("messages", [1, 2, 5])
@pytest.mark.parametrize("segments", [1, 3])
def test_tcbt_in_q2_costs_two_of_three_steps(collective: str, port_model: str, messages: int, segments: int) -> None:
    result = run_scenario(
        topology="hypercube:2", collective=collective, algorithm="tcbt", port_model=port_model, messages=messages,
        segments=segments, message_bytes=60,
    )  # fmt: skip
    assert not failures(result)
    packets = messages * segments
    assert result.summary["steps"] == 3 * packets - 1
    assert result.summary["startups"] == 2 * packets
    claims = {(j.claim.name, j.claim.relation): j.claim.predicted for j in result.judgements}
    assert claims["startups", "=="] == 2 * packets
    assert claims["transfer_bytes", "=="] == 2 * messages * 60

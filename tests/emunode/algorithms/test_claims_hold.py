"""Claims about virtual time, and runs over sockets on larger networks; `tests/contract/execution.py` has every algorithm."""

import pytest

from coordinator.results.claims import Judgement
from tests.contract.execution import assert_one_history
from tests.helpers.scenarios import Case
from tests.helpers.support import failures, run_scenario


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize("line", [
    # the Intel iPSC/d7 of Johnsson and Ho had 128 nodes
    "hypercube:7 broadcast nesbt port_model=exchange segments=5", "hypercube:7 scatter sbt-gray port_model=send-or-receive",
    "hypercube:7 scatter sbntc", "hypercube:7 alltoall sbt port_model=exchange",
    "hypercube:3 broadcast nesbt port_model=exchange redundancy=2 segments=3 fault=crash:101@2",
    "star:5 alltoall near-balanced-tree", "star:4 alltoall list-schedule messages=2",
    "star:4 broadcast substar-segments port_model=one-port messages=2 message_bytes=100",
    "ej:1+2^2 gather independent-trees source=-1,0/0,1 redundancy=2",
    "ej:1+2^2 allgather three-phase-printed duplex=half", "ej:1+2^2 allgather dimension-wise duplex=half",
])  # fmt: skip
def test_sockets_give_the_history_of_a_larger_network(line: str) -> None:
    assert_one_history(Case(line))


@pytest.mark.parametrize("topology", ["star:4", "hypercube:3"])
def test_flooding_works_half_duplex_on_bipartite_networks(topology: str) -> None:
    scenario = {"topology": topology, "collective": "broadcast", "algorithm": "flood", "messages": 3}
    assert not failures(run_scenario(None, **scenario, duplex="half"))


# Time: bounds, and T_min with several messages.


def number(judgement: Judgement) -> float:
    """Return the prediction of a claim that has one number."""
    predicted = judgement.claim.predicted
    assert not isinstance(predicted, tuple)
    return predicted


@pytest.mark.parametrize(
    ("algorithm", "port_model", "ratio"),
    [
        ("rotated-trees", "all-port", 1.0),
        ("rotated-trees", "one-port", 2.097),
    ],
)
def test_lemma_2_bounds_by_both_terms(algorithm: str, port_model: str, ratio: float) -> None:
    """Both terms of Tseng and Sheu's lemma bind: D_n Ts, and (n!-1) m Tc over n-1 links or one. So does their sum, as a
    time is start-ups times Ts and bytes times Tc.
    """
    result = run_scenario(
        topology="star:4", collective="allgather", algorithm=algorithm, port_model=port_model, message_bytes=60
    )
    (bound,) = [j for j in result.judgements if j.claim.name == "virtual_seconds" and j.claim.relation == ">="]
    startups = 4 if port_model == "all-port" else 5  # D_n; ceil(log2 24)
    links = 3 if port_model == "all-port" else 1
    assert bound.claim.predicted == pytest.approx(startups * 1e-3 + 23 * 60 / links * 1e-6)
    assert bound.ratio == pytest.approx(ratio, abs=5e-4)


@pytest.mark.parametrize("algorithm", ["hamiltonian-cycle", "rotated-hamiltonian", "mbst", "rotated-trees"])
@pytest.mark.parametrize(("startup", "per_byte"), [("1ms", "1us"), ("1us", "1ms"), ("0s", "1us"), ("1ms", "0s")])
def test_an_allgather_claims_the_sum_of_its_bounds(algorithm: str, startup: str, per_byte: str) -> None:
    port_model = "one-port" if algorithm == "hamiltonian-cycle" else "all-port"
    result = run_scenario(
        topology="star:4", collective="allgather", algorithm=algorithm, port_model=port_model, message_bytes=60,
        startup=startup, per_byte=per_byte,
    )  # fmt: skip
    bounds = {j.claim.name: number(j) for j in result.judgements if j.claim.relation == ">="}
    seconds = {"1ms": 1e-3, "1us": 1e-6, "0s": 0.0}
    terms = (seconds[startup] * bounds["startups"], seconds[per_byte] * bounds["transfer_bytes"])
    assert bounds["virtual_seconds"] == pytest.approx(sum(terms))
    assert not failures(result)


@pytest.mark.exhaustive(one_in=4)
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

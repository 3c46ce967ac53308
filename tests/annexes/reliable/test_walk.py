"""Predictions over reliable links: hand-made losses, random faults on many algorithms, and the reasons for none."""

from random import Random
from typing import Any

import pytest

from coordinator.annexes.reliable.walk import RELIABLE, why_not_followed
from coordinator.execution.sinks import FinishedRun
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.scenarios import Case
from tests.helpers.support import failures, run_scenario

Q2 = {"topology": "hypercube:2", "collective": "broadcast", "algorithm": "sbt", "reliable": True, "retransmit_after": 2}


def derived(result: FinishedRun) -> dict[str, object]:
    """Return the predictions of the model of the links, by metric."""
    return {each.claim.name: each.claim.predicted for each in result.judgements if each.claim.source == RELIABLE}


@pytest.mark.parametrize(
    ("fault", "attempts", "intact", "segments"),
    [
        ("loss:00>01:1", 3, 1, 3 + 1),  # 11 is behind 01
        ("loss:00>10:1", 3, 2, 3 + 2),
        ("drop:00>01:1", 1, 1, 1 + 1),
        ("drop:00>01:1", 2, 3, 2 + 2),
    ],
)
def test_a_link_carries_a_segment_as_often_as_it_may(fault: str, attempts: int, intact: int, segments: int) -> None:
    result = run_scenario(None, **Q2, fault=[fault], attempts=attempts)
    assert (result.summary["intact_deliveries"], result.summary["segments"]) == (intact, segments)
    if intact < 3:
        assert derived(result) == {"intact_deliveries": intact, "segments": segments}


def test_a_run_with_random_losses_is_decided() -> None:
    """With two attempts and losses of a half, no claim of theory says how many arrive."""
    values = {**Q2, "topology": "hypercube:4", "fault": ["loss:*:0.5"], "attempts": 2}
    seen = set()
    for seed in range(8):
        result = run_scenario(None, **values, seed=seed)
        predicted = derived(result)
        assert predicted == {name: result.summary[name] for name in predicted}
        seen.add(predicted.get("intact_deliveries"))
    assert len(seen) > 3


ALGORITHMS = [
    ("star:4", "broadcast", "edt"), ("star:4", "broadcast", "greedy-tree"), ("star:4", "scatter", "edt"),
    ("star:4", "gather", "edt"), ("star:4", "alltoall", "list-schedule"), ("star:4", "allgather", "mbst"),
    ("hypercube:3", "broadcast", "nesbt"), ("hypercube:3", "broadcast", "tcbt"), ("hypercube:3", "alltoall", "sbt"),
    ("torus:3x4", "broadcast", "bfs-tree"), ("torus:3x4", "broadcast", "edge-disjoint-trees"),
    ("torus:3x4", "allgather", "bfb"), ("torus:3x4", "alltoall", "list-schedule"),
    ("ej:2+3", "broadcast", "improved"), ("ej:2+3", "broadcast", "independent-trees"),
]  # fmt: skip


def random_fault(random: Random, network: Topology, links: list[tuple[int, int]]) -> str:
    one, other = map(network.label, random.choice(links))
    where = f"{one}{random.choice('~>')}{other}"
    return random.choice([
        f"loss:{where}:{random.choice(['0.3', '0.6', '0.9'])}", f"loss:{where}:0.5@{random.randint(1, 6)}",
        f"drop:{where}:{random.randint(1, 3)}", f"duplicate:{where}:0.5", f"down:{where}@{random.randint(1, 4)}",
        f"down:{where}@{random.randint(1, 4)}-{random.randint(5, 9)}",
        f"crash:{network.label(random.randrange(1, network.order))}@{random.randint(1, 5)}",
    ])  # fmt: skip


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(("topology", "collective", "algorithm"), ALGORITHMS)
def test_random_faults_over_reliable_links_are_followed(topology: str, collective: str, algorithm: str) -> None:
    network, random, judged = parse_topology(topology), Random(f"{topology} {algorithm}"), 0
    links = [(one, other) for one, _, other, _ in network.links()]
    for _ in range(8):
        faults = dict.fromkeys(random_fault(random, network, links) for _ in range(random.randint(1, 5)))
        values: dict[str, Any] = {
            "topology": topology, "collective": collective, "algorithm": algorithm, "reliable": True,
            "attempts": random.randint(1, 5), "window": random.randint(1, 3), "back_off": random.random() < 0.5,
            "seed": random.randrange(10**6), "messages": random.randint(1, 3), "fault": list(faults),
        }  # fmt: skip
        try:
            result = run_scenario(**values)
        except ScenarioError:
            continue  # faults that contradict one another
        assert result.verdict != "violated", failures(result)
        predicted = derived(result)
        assert predicted == {name: result.summary[name] for name in predicted}, values
        judged += bool(predicted)
    assert judged > 2


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"fault": ["delay:00~01:2"]}, "a fault delays"),
        ({"fault": ["corrupt:00~01:0.5"]}, "a fault delays"),
        ({"fault": ["hang:01@2-5"]}, "a fault delays"),
        ({"fault": ["crash:01@2", "recover:01@5"]}, "a fault delays"),
        ({"collective": "reduce"}, "what a rank folds"),
        ({"port_model": "one-port"}, "only lock-step over all ports"),
        ({"clock": "timed", "retransmit_after": None}, "only lock-step over all ports"),
        ({"algorithm": "flood"}, "its rule does not go by"),
        ({"fault_knowledge": "detect:3"}, "nodes that learn of faults"),
        ({"fault": ["down:00~01@1-4", "loss:00~10:0.5"]}, None),
    ],
)
def test_what_is_not_followed_is_said(values: dict[str, Any], reason: str | None) -> None:
    found = why_not_followed(Case(Q2, **values).plan)
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_most_segments_count_every_target_of_a_scatter() -> None:
    """One attempt each: 195 segments of two messages to 23 nodes exceed what two copies on every link would be."""
    fault = "down:1423>2413@2"
    result = run_scenario(
        topology="star:4", collective="scatter", algorithm="edt", reliable=True, attempts=1, messages=2, fault=[fault]
    )
    (most,) = [
        each.claim for each in result.judgements if each.claim.name == "segments" and each.claim.relation == "<="
    ]
    segments = result.summary["segments"]
    assert isinstance(segments, int)
    assert isinstance(most.predicted, int)
    assert 2 * 72 < segments <= most.predicted

"""Claims that are derived from the traced schedule: what the engines deliver under any faults that it can follow."""

import random

import pytest

from coordinator.execution.sinks import FinishedRun
from emunode.algorithms.registry import algorithms
from emunode.errors import ScenarioError
from emunode.model import Collective
from emunode.topologies.registry import parse_topology
from tests.helpers.scenarios import Case
from tests.helpers.support import failures

DERIVED = "the schedule without faults, followed under these faults"


def derived(result: FinishedRun) -> dict[str, object]:
    """Return the predicted values of the derived claims, by metric."""
    claims = result.summary["claims"]
    assert isinstance(claims, list)
    return {claim["name"]: claim["predicted"] for claim in claims if claim["source"] == DERIVED}


def test_a_reduce_under_a_crash_counts_its_contributions() -> None:
    """A leaf of the tree costs its own contribution, an inner node those of its subtree unless they have passed."""
    for fault, missing in (("crash:4321@1", 1), ("crash:2134@1", 11)):
        result = Case("star:4 reduce greedy-tree", fault).run
        assert result.verdict == "holds", failures(result)
        assert result.summary["least_contributions"] == 24 - missing
        assert derived(result)["least_contributions"] == 24 - missing
        labels = result.summary["missing_contributions"]
        assert isinstance(labels, list)
        assert len(labels) == missing
        assert fault[6:10] in labels


def test_contributions_after_a_recovery_arrived_since_then() -> None:
    # 2134 folds its subtree of 11 until step 4; it returns with its own contribution alone, and sends that in step 4.
    result = Case("star:4 reduce greedy-tree", "crash:2134@2", "recover:2134@4").run
    assert result.verdict == "holds", failures(result)
    assert result.summary["least_contributions"] == derived(result)["least_contributions"]
    missing = result.summary["missing_contributions"]
    assert isinstance(missing, list)
    assert "2134" not in missing
    assert 0 < len(missing) < 11


@pytest.mark.parametrize(
    ("collective", "algorithm", "delivered"),
    [
        ("broadcast", "greedy-tree", 12),
        ("scatter", "balanced-tree", None),
        ("gather", "balanced-tree", None),
        ("allgather", "mbst", 467),
        ("alltoall", "list-schedule", None),
    ],
)
def test_a_byzantine_node_without_votes(collective: str, algorithm: str, delivered: int | None) -> None:
    result = Case(f"star:4 {collective} {algorithm}", "byzantine:2134").run
    assert result.verdict == "holds", failures(result)
    assert derived(result)["intact_deliveries"] == result.summary["intact_deliveries"]
    if delivered is not None:
        assert derived(result)["intact_deliveries"] == delivered


def test_a_claim_of_theory_is_not_repeated() -> None:
    result = Case("star:4 broadcast greedy-tree", "crash:4321@1").run
    assert derived(result) == {}


NETWORKS = ("star:4", "hypercube:3", "ej:1+2", "mesh:3x3", "complete:6", "ring:5")


def random_faults(network: str, rng: random.Random) -> list[str]:
    """Return one fault of a random kind at a random place, with the recovery where it is a crash."""
    topology = parse_topology(network)
    rank = rng.randrange(topology.order)
    here, there = topology.label(rank), topology.label(rng.choice([peer for _, peer in topology.adjacent(rank)]))
    first = rng.randint(1, 7)
    last = first + rng.randint(0, 4)
    kinds = (
        [f"crash:{here}@{first}"], [f"crash:{here}@{first}", f"recover:{here}@{last + 1}"], [f"hang:{here}@{first}-{last}"],
        [f"byzantine:{here}@{first}"], [f"equivocate:{here}@{first}-{last}"], [f"collude:{here}"],
        [f"silent:{here}@{first}"], [f"silent-ports:{here}:0.5"], [f"silent-segments:{here}:0.5"], [f"selective:{here}:0.5"],
        [f"down:{here}~{there}@{first}-{last}"], [f"loss:{here}>{there}:0.5@{first}"],
        [f"corrupt:{here}>{there}:0.5@{first}"], [f"drop:{here}>{there}:1@{first}"],
    )  # fmt: skip
    return rng.choice(kinds)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("seed", range(40))
def test_random_faults_have_the_derived_outcome(seed: int) -> None:
    """Any algorithm, collective and kind of fault: what the engines deliver is what the schedule says."""
    rng = random.Random(seed)
    # Messages come from schedule files alone.
    collectives = [each for each in Collective if each is not Collective.MESSAGES]
    tried = 0
    while tried < 3:
        network, collective = rng.choice(NETWORKS), rng.choice(collectives)
        found = list(algorithms(parse_topology(network).family, collective).values())
        entry = rng.choice(found)
        faults = [spec for _ in range(rng.randint(1, 3)) for spec in random_faults(network, rng)]
        try:
            ports, messages, segments = rng.choice(entry.port_models), rng.choice([1, 2]), rng.choice([1, 2])
            line = f"{network} {collective} {entry.name} port_model={ports} messages={messages} segments={segments}"
            result = Case(line, *faults, seed=seed).run
        except ScenarioError:
            continue
        tried += 1
        assert result.verdict != "violated", failures(result)
        assert all(result.summary[name] == value for name, value in derived(result).items())

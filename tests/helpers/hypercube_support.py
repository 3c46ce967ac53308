"""Helpers of the tests of hypercube algorithms: expected numbers, and runs of the memory engine alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from emunode.algorithms.conformance import Transmission, check_claims, execute, measure
from emunode.algorithms.registry import make_algorithm
from emunode.model import Collective, CollectiveSpec, PortModel
from emunode.topologies.hypercube import Hypercube
from tests.helpers.support import golden_rows

golden = partial(golden_rows, "hypercube")

PORTS = {
    "exchange": PortModel.EXCHANGE,
    "sendrecv": PortModel.ONE_PORT,
    "sendorrecv": PortModel.SEND_OR_RECEIVE,
    "nport": PortModel.ALL_PORT,
    "one": PortModel.EXCHANGE,
    "n": PortModel.ALL_PORT,
}
"""The port models by their names in the files of expected numbers."""

TREES = {"BRG": 1, "SBT": 1, "TCBT": 1, "SBnT": 1, "nRBRG": 0, "nRSBT": 0, "nESBT": 0, "SBnTc": 0}
"""Number of trees of each graph; 0 for as many as dimensions."""


EXACT = {"steps", "segments", "intact_deliveries"}
"""Metrics with a claim of an exact value for every algorithm of the paper; start-ups and transfer may have two bounds."""


class CubeRun(NamedTuple):
    """The metrics of a run, and everything that was sent."""

    metrics: Mapping[str, Any]
    hops: Sequence[Transmission]

    def links_of_a_dimension_are_alike(self, order: int) -> bool:
        """Return whether in every step all links of a dimension carry the same number of segments."""
        packets = Counter((hop.step, hop.sender, hop.port) for hop in self.hops)
        alike: dict[tuple[int, int], Counter[int]] = {}
        for (step, _, port), count in packets.items():
            alike.setdefault((step, port), Counter())[count] += 1
        return all(list(counts.values()) == [order] for counts in alike.values())


def play(spec: CollectiveSpec) -> CubeRun:
    """Run a collective without an engine, and assert that it keeps its claims and sends nothing twice."""
    algorithm = make_algorithm(cube(spec.topology), spec)
    hops = execute(algorithm)
    metrics = measure(algorithm, hops)
    check_claims(algorithm, metrics)
    claims = algorithm.claims()
    assert {claim.name for claim in claims if claim.relation == "=="} >= EXACT
    assert {claim.name for claim in claims} >= {"startups", "transfer_bytes"}
    assert metrics["duplicates"] == 0
    return CubeRun(metrics, hops)


@lru_cache(64)
def cube(name: str) -> Hypercube:
    """Return the hypercube called `name`, cached."""
    return Hypercube(int(name.partition(":")[2]))


def spec(n: int, collective: Collective, name: str, ports: PortModel, **values: Any) -> CollectiveSpec:
    """Return a collective on Q_n, from node 0 unless `values` name another source."""
    return CollectiveSpec(f"hypercube:{n}", collective, name, port_model=ports, **{"source": 0, **values})

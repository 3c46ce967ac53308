"""Helpers of the tests of hypercube algorithms: expected numbers, and runs of the memory engine alone."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np

from coordinator.history.journal import RECORD
from emunode.algorithms.registry import make_algorithm
from emunode.engine.memory import MemoryEngine
from emunode.model import Collective, CollectiveSpec, PortModel
from emunode.topologies.hypercube import Hypercube
from tests.support import golden_rows

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


@dataclass(frozen=True)
class History:
    """The journal rows of a run."""

    rows: np.ndarray

    @property
    def steps(self) -> int:
        return int(self.rows["step"].max())

    @property
    def hops(self) -> int:
        return len(self.rows)

    @cached_property
    def _packets(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A key per packet that contains its step, and the packet's number of segments and bytes."""
        keys = self.rows["step"].astype(np.int64) * 2**32 + self.rows["sender"] * 64 + self.rows["port"]
        packets, index = np.unique(keys, return_inverse=True)
        return packets, np.bincount(index), np.bincount(index, weights=self.rows["bytes"]).astype(np.int64)

    def _largest(self, values: np.ndarray) -> list[int]:
        largest = np.zeros(self.steps + 1, dtype=np.int64)
        np.maximum.at(largest, self._packets[0] // 2**32, values)
        return [int(value) for value in largest[1:]]

    @cached_property
    def segments_per_step(self) -> list[int]:
        """Largest number of segments on one directed link, per step."""
        return self._largest(self._packets[1])

    @cached_property
    def bytes_per_step(self) -> list[int]:
        """Largest number of bytes on one directed link, per step."""
        return self._largest(self._packets[2])

    @property
    def busiest_link(self) -> int:
        """Largest number of segments on one directed link over the whole run."""
        _, counts = np.unique(self.rows["sender"] * 64 + self.rows["port"], return_counts=True)
        return int(counts.max())

    def links_of_a_dimension_are_alike(self, order: int) -> bool:
        """Whether in every step all links of a dimension carry the same number of segments."""
        alike: dict[tuple[int, int], Counter[int]] = {}
        for key, count in zip(*self._packets[:2], strict=True):
            alike.setdefault((int(key) >> 32, int(key) % 64), Counter())[int(count)] += 1
        return all(len(counts) == 1 and set(counts.values()) == {order} for counts in alike.values())


def play(spec: CollectiveSpec) -> History:
    """Run a collective in memory, without faults, and assert that every segment arrived intact."""
    algorithm = make_algorithm(cube(spec.topology), spec)
    network, rows, step = MemoryEngine(algorithm), bytearray(), 0
    while network.busy:
        step += 1
        rows += network.step(step)
    history = History(np.frombuffer(bytes(rows), dtype=RECORD))
    assert set(np.unique(history.rows["outcome"])) <= {0, 2}, "something was lost, altered or sent twice"
    others, pieces = algorithm.topology.order - 1, algorithm.segments_per_message * spec.messages
    if spec.collective is not Collective.REDUCE:
        pairs = others * (1 if spec.collective is Collective.GATHER else len(algorithm.sources))
        assert np.count_nonzero(history.rows["outcome"] == 0) == pairs * pieces
    return history


@lru_cache(64)
def cube(name: str) -> Hypercube:
    """The hypercube called `name`, cached."""
    return Hypercube(int(name.partition(":")[2]))


def spec(
    n: int,
    collective: Collective,
    name: str,
    ports: PortModel,
    *,
    source: int = 0,
    message_bytes: int = 64,
    messages: int = 1,
    segments: int = 1,
    redundancy: int = 1,
    packet_limit: int = 0,
) -> CollectiveSpec:
    """A collective on Q_n."""
    return CollectiveSpec(
        f"hypercube:{n}",
        collective,
        name,
        source,
        ports,
        message_bytes=message_bytes,
        messages=messages,
        segments=segments,
        redundancy=redundancy,
        packet_limit=packet_limit,
    )

"""The control connection between coordinator and host: message names, and the configuration of a host.

From the coordinator (orders): `data` (part of the numbers that the user gives), `assign` (a HostConfig), `connect` and
`dial` (open links), `close_links`, `tree` (take a place in the tree of control), `step`, `tree_step`, `drain` and
`catch_up` (steps), `look` (at arrivals), `are_you_there`, `reset` (another run on the same links), `timetable`, `prepare`
and `begin` (the timed clock), `results` (send what ranks ended with) and `shutdown`. From a host: `data_received`,
`listening`, `links`, `report`, `received`, `rows`, `altered_copies`, `tree_joined`, `subtree` and `subtree_received` (sums
of reports),
`here`, `times`, `prepared`, `heartbeat`, `finished`, `result`, `results_sent` and `failed`.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from emunode.errors import FrameError
from emunode.model import Bounds, CollectiveSpec, Plugin, Positive
from emunode.net import records


class HostConfig(NamedTuple):
    """The configuration of an authenticated host: its place in the run and the collective to run."""

    run: Annotated[int, Bounds(0, 2**64 - 1)]
    """64-bit number of the run, repeated in every hello."""
    host: int
    hosts: Positive
    spec: CollectiveSpec
    listen_address: str
    """Empty: the address that this host reached the coordinator from."""
    dial_address: str
    """Source address of dialled links; the host chooses their ports. Empty: the kernel chooses both."""
    backlog: int
    setup_seconds: float
    network: bytes = b""
    """The network as `TableTopology.to_bytes` writes it, if its name does not define it and no host has preloaded it."""
    network_sha256: str = ""
    """Its digest; empty if the name of the topology defines the network."""
    plugins: tuple[Plugin, ...] = ()
    """Plug-ins to load before the network and the algorithm are looked up."""
    placement: bytes = b""
    """The host of each rank, as `emunode.host.placement` packs it; empty: consecutive blocks."""

    def to_record(self) -> tuple[object, ...]:
        """Return plain values for the wire."""
        return records.encode_record(self)

    @classmethod
    def from_record(cls, record: Sequence[object]) -> "HostConfig":
        """Return the inverse of `to_record`; FrameError for anything malformed."""
        config = records.decode_record(cls, record)
        if config.host >= config.hosts:
            raise FrameError(f"host {config.host} of {config.hosts}")
        return config

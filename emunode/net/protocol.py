"""The control connection between coordinator and host: message names, and the configuration of a host.

From the coordinator (orders): `assign` (a HostConfig), `connect` and `dial` (open links), `close_links`, `step`, `drain`
and `catch_up` (steps), `reset` (another run on the same links), `timetable`, `prepare` and `begin` (the timed clock) and
`shutdown`. From a host: `listening`, `links`, `report`, `received`, `rows`, `altered_copies`, `times`, `prepared`,
`heartbeat`, `finished` and `failed`.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

from emunode.errors import FrameError
from emunode.model import (
    ALL_RANKS,
    AUTOMATIC,
    Agreement,
    Collective,
    CollectiveSpec,
    Detection,
    Duplex,
    FaultKnowledge,
    Plugin,
    PortModel,
    ReliableLinks,
    Repair,
)
from emunode.net.validation import INT64, flag, integer, integers, items, number, octets, text

Choice = TypeVar("Choice", bound=StrEnum)


class HostConfig(NamedTuple):
    """The configuration of an authenticated host: its place in the run and the collective to run."""

    run: int
    """64-bit number of the run, repeated in every hello."""
    host: int
    hosts: int
    spec: CollectiveSpec
    listen_address: str
    """Empty: the address from which this host reached the coordinator."""
    dial_address: str
    """Source address of dialled links, for which the host chooses the ports; empty: the kernel chooses both."""
    backlog: int
    setup_seconds: float
    network: bytes = b""
    """The network as `TableTopology.to_bytes` writes it, if its name does not define it and no host has preloaded it."""
    network_sha256: str = ""
    """Its digest; empty if the name of the topology defines the network."""
    plugins: tuple[Plugin, ...] = ()
    """Plug-ins to load before the network and the algorithm are looked up."""

    def to_record(self) -> tuple[object, ...]:
        """Plain values for the wire."""
        return (*self[:3], spec_to_record(self.spec), *self[4:-1], [list(plugin) for plugin in self.plugins])

    @classmethod
    def from_record(cls, record: Sequence[object]) -> "HostConfig":
        """Inverse of `to_record`; FrameError for anything malformed."""
        # Exactly eleven values: a peer of another version with a longer record is refused here.
        run, host, hosts, spec, listen, dial, backlog, seconds, network, sha256, plugins = items(record, 11)
        hosts = integer(hosts, 1)
        return cls(
            run=integer(run, 0, 2**64 - 1),
            host=integer(host, 0, hosts - 1),
            hosts=hosts,
            spec=spec_from_record(spec),
            listen_address=text(listen),
            dial_address=text(dial),
            backlog=integer(backlog),
            setup_seconds=number(seconds),
            network=octets(network),
            network_sha256=text(sha256),
            plugins=tuple(Plugin(*map(text, items(plugin, 3))) for plugin in items(plugins)),
        )


def spec_to_record(spec: CollectiveSpec) -> tuple[object, ...]:
    """A collective's parameters as plain values for the wire."""
    # Enum members become plain strings, which msgpack can pack.
    return tuple(str(value) if isinstance(value, str) else value for value in spec)


def spec_from_record(record: object) -> CollectiveSpec:
    """Inverse of `spec_to_record`; FrameError for anything malformed."""
    # Positional, in the order of the fields; each is then checked by name.
    values = CollectiveSpec(*items(record, len(CollectiveSpec._fields)))  # type: ignore[arg-type]
    return CollectiveSpec(
        topology=text(values.topology),
        collective=_choice(Collective, values.collective),
        algorithm=text(values.algorithm),
        source=integer(values.source),
        port_model=_choice(PortModel, values.port_model),
        duplex=_choice(Duplex, values.duplex),
        message_bytes=integer(values.message_bytes),
        messages=integer(values.messages, 1),
        segments=integer(values.segments, 1),
        redundancy=integer(values.redundancy, 1),
        seed=integer(values.seed, -INT64, INT64 - 1),
        packet_limit=integer(values.packet_limit),
        knowledge=_choice(FaultKnowledge, values.knowledge),
        broken=tuple((rank, port) for rank, port in (integers(end, 2) for end in items(values.broken))),
        target=integer(values.target, ALL_RANKS),
        permutation=tuple(integer(rank) for rank in items(values.permutation)),
        program=text(values.program),
        program_deadline=number(values.program_deadline),
        reliable=None if values.reliable is None else _reliable_links(values.reliable),
        link_capacity=integer(values.link_capacity, AUTOMATIC),
        detection=None if values.detection is None else _detection(values.detection),
        repair=None if values.repair is None else _repair(values.repair),
        agreement=None if values.agreement is None else _agreement(values.agreement),
        blocks=integer(values.blocks, 1),
        short_blocks=integer(values.short_blocks),
    )


def _detection(record: object) -> Detection:
    after, doubling, interval = items(record, len(Detection._fields))
    return Detection(integer(after, 1), flag(doubling), integer(interval, 1, INT64 - 1))


def _repair(record: object) -> Repair:
    rule, after = items(record, len(Repair._fields))
    return Repair(text(rule), integer(after, 0))


def _agreement(record: object) -> Agreement:
    steps, shrink = items(record, len(Agreement._fields))
    return Agreement(integer(steps, 1), flag(shrink))


def _reliable_links(record: object) -> ReliableLinks:
    after, attempts, window, back_off = items(record, len(ReliableLinks._fields))
    return ReliableLinks(integer(after, 1, INT64 - 1), integer(attempts, 1), integer(window, 1), flag(back_off))


def _choice(kind: type[Choice], value: object) -> Choice:
    try:
        return kind(text(value))
    except ValueError:
        raise FrameError(f"expected one of {', '.join(kind)}, got {value!r:.80}") from None

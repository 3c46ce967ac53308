"""What a host is told before it starts: its place in a run, the job, and where to listen and dial."""

from collections.abc import Sequence
from typing import NamedTuple

from emunode.model import Collective, CollectiveSpec, Duplex, FaultKnowledge, PortModel


class HostConfig(NamedTuple):
    """What the coordinator tells a host that proved itself."""

    run: int
    """64-bit number of the run, repeated in every hello."""
    host: int
    hosts: int
    spec: CollectiveSpec
    listen_address: str
    """Empty: the address from which this host reached the coordinator."""
    dial_address: str
    """Source address of dialled links, bound with ports of the host's own choice; empty: leave it to the kernel."""
    backlog: int
    setup_seconds: float

    def to_record(self) -> tuple[object, ...]:
        """Plain values for the wire."""
        return (*self[:3], job_to_record(self.spec), *self[4:])

    @classmethod
    def from_record(cls, record: Sequence[object]) -> "HostConfig":
        """Inverse of `to_record`."""
        run, host, hosts, fields, *rest = record
        return cls(run, host, hosts, spec_from_record(fields), *rest)  # type: ignore[arg-type]


def job_to_record(spec: CollectiveSpec) -> tuple[object, ...]:
    """A job as plain values for the wire."""
    return tuple(map(_plain, spec))


def spec_from_record(fields: Sequence[object]) -> CollectiveSpec:
    """Inverse of `job_to_record`."""
    spec = CollectiveSpec(*fields)  # type: ignore[arg-type]
    return spec._replace(
        collective=Collective(spec.collective),
        port_model=PortModel(spec.port_model),
        duplex=Duplex(spec.duplex),
        knowledge=FaultKnowledge(spec.knowledge),
        broken=tuple((rank, port) for rank, port in spec.broken),
    )


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value

"""What a host is told before it starts: its place in a run, the job, and where to listen and dial."""

from collections.abc import Sequence
from typing import NamedTuple

from emunode.model import Collective, Duplex, Job, Knowledge, PortModel


class Assignment(NamedTuple):
    """What the coordinator tells a host that proved itself."""

    run: int
    """64-bit number of the run, repeated in every hello."""
    host: int
    hosts: int
    job: Job
    listen_address: str
    dial_address: str
    """Source address of dialled links, bound with ports of the host's own choice; empty: leave it to the kernel."""
    backlog: int
    setup_seconds: float

    def to_record(self) -> tuple[object, ...]:
        """Plain values for the wire."""
        return (*self[:3], tuple(map(_plain, self.job)), *self[4:])

    @classmethod
    def from_record(cls, record: Sequence[object]) -> "Assignment":
        """Inverse of `to_record`."""
        run, host, hosts, fields, *rest = record
        job = Job(*fields)  # type: ignore[misc]
        job = job._replace(
            collective=Collective(job.collective),
            port_model=PortModel(job.port_model),
            duplex=Duplex(job.duplex),
            knowledge=Knowledge(job.knowledge),
        )
        return cls(run, host, hosts, job, *rest)  # type: ignore[arg-type]


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value

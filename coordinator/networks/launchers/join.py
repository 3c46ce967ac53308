"""The join driver: hosts that are started elsewhere, by compose, swarm or a person, and connect to this process."""

import os
import secrets
import socket
from collections.abc import Collection
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import TextIO

import trio

from coordinator.history.stored.left_behind import Record, digest_of, new_record, partial_of, read_records
from coordinator.history.stored.reading import read_bytes
from coordinator.networks.launchers.base import Launch
from coordinator.planning.plan import Plan
from coordinator.scenario.drivers import JoinEndpoint
from emunode.errors import RunError, ScenarioError
from emunode.launched import JoinFile, job_join_file, join_text
from emunode.runtime import MOST_TOKEN_BYTES


class JoinLaunch(Launch):
    """Hosts that are started elsewhere. Each listens at the address that it reached the coordinator from.

    They exit when this process ends, not before, so that a supervisor reports the exit status of the coordinator.
    """

    hosts_outlive_run = True

    def __init__(self, endpoint: JoinEndpoint) -> None:
        self._endpoint = endpoint
        self.join_seconds = endpoint.join_seconds
        self._never = -1
        self._records: list[Record] = []
        """Of the token file, if this run or another one that is not over has created it, and of the join file."""
        # Inside a job of Slurm, `srun emunode` finds the run by itself.
        job = os.environ.get("SLURM_JOB_ID")
        self._join_file = job_join_file(job) if job else None

    def token(self) -> bytes:
        """Return the content of the token file. A missing file is created for hosts to read, and removed at the end.

        ScenarioError if the file cannot be read or created.
        """
        path = self._endpoint.token_file
        try:
            if not path.exists():
                self._create_token(path.absolute())
            elif str(path.absolute()) in {file for record in read_records() for file in record.files}:
                self._record(path.absolute(), read_bytes(path, MOST_TOKEN_BYTES))
            token = read_bytes(path, MOST_TOKEN_BYTES).strip()
        except OSError as error:
            raise ScenarioError("token_file", str(path), f"cannot be read or created: {error.strerror}") from None
        except ValueError as error:
            raise ScenarioError("token_file", str(path), str(error)) from None
        if not token:
            raise ScenarioError("token_file", str(path), "it is empty; remove it, and a new token is created")
        return token

    def _create_token(self, path: Path) -> None:
        content = f"{secrets.token_hex(32)}\n".encode()
        self._record(path, content)
        fresh = partial_of(path)
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        fresh.rename(path)

    def _record(self, path: Path, token: bytes) -> None:
        record = new_record(files={str(path): digest_of(token), str(partial_of(path)): ""})
        with suppress(RunError):  # a container may have a token folder, and no state folder
            record.write()
        self._records.append(record)

    async def prepare(self) -> tuple[str, int]:
        return self._endpoint.address, self._endpoint.port

    def start(self, port: int, token: bytes, hosts: int) -> int:
        self._never = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        if self._join_file is not None:
            address = self._endpoint.address
            dialled = socket.gethostname() if IPv4Address(address).is_unspecified else address
            self._records.append(record_join(self._join_file, f"{dialled}:{port}", token))
            self._join_file.write(f"{dialled}:{port}", token)
        return self._never

    def check(self) -> None:
        """Check nothing: this launcher starts no process."""

    def missing(self, joined: Collection[str], absent: Collection[int]) -> str:
        """Name the hosts that joined, because the names of missing hosts are unknown here."""
        came = f"these did: {', '.join(joined)}" if joined else "none did"
        return f"{super().missing(joined, absent)}; {came}"

    async def stop(self) -> None:
        if self._never >= 0:
            os.close(self._never)
            self._never = -1
        for record in self._records:
            record.discard()
        await trio.lowlevel.checkpoint()


def launch(plan: Plan, _log: TextIO) -> JoinLaunch:
    """Return the launcher of the join driver; ScenarioError if the plan has no endpoint."""
    if plan.endpoint is None:
        raise ScenarioError(
            "driver", "join", "it is only available with `coordinator serve`; use another driver for `coordinator run`"
        )
    return JoinLaunch(plan.endpoint)


def record_join(file: JoinFile, endpoint: str, token: bytes) -> Record:
    """Record a join file before it is written; return the record. RunError if that fails."""
    digest = digest_of(join_text(endpoint, token).encode())
    record = new_record(files={str(file.path): digest, str(file.unfinished): ""})
    record.write()
    return record

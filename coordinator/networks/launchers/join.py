"""The join driver: hosts that somebody else starts, compose, swarm or a person, and that find their way by themselves."""

import os
import secrets
from collections.abc import Collection
from typing import TextIO

import trio

from coordinator.networks.launchers.base import Launch
from coordinator.planning.endpoint import JoinEndpoint
from coordinator.planning.plan import Plan
from emunode.errors import ScenarioError


class JoinLaunch(Launch):
    """Hosts that come from elsewhere. Each listens at the address from which it reached the coordinator.

    They leave when this process ends, not before: the exit status of the coordinator is to be everybody's.
    """

    hosts_outlive_run = True

    def __init__(self, door: JoinEndpoint) -> None:
        self._door = door
        self.join_seconds = door.join_seconds
        self._never = -1
        self._token_is_ours = False

    def token(self) -> bytes:
        """What the token file says; a file that is not there is made, for hosts to read, and removed at the end.

        Raises ScenarioError for one that cannot be read or made.
        """
        path = self._door.token_file
        try:
            if not path.exists():
                fresh = path.with_name(f".{path.name}-{os.getpid()}")
                fresh.touch(mode=0o600)
                fresh.write_text(secrets.token_hex(32) + "\n")
                fresh.rename(path)
                self._token_is_ours = True
            token = path.read_bytes().strip()
        except OSError as error:
            raise ScenarioError("token_file", str(path), f"it cannot be read or made: {error.strerror}") from None
        if not token:
            raise ScenarioError("token_file", str(path), "it is empty; remove it, and a token will be made")
        return token

    async def prepare(self) -> tuple[str, int]:
        return self._door.address, self._door.port

    def start(self, port: int, token: bytes, hosts: int) -> int:
        self._never = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        return self._never

    def missing(self, joined: Collection[str], absent: Collection[int]) -> str:
        """Whoever starts hosts does not tell us their names, so those that came are named."""
        came = f"these did: {', '.join(joined)}" if joined else "none did"
        return f"{super().missing(joined, absent)}; {came}"

    async def stop(self) -> None:
        if self._never >= 0:
            os.close(self._never)
            self._never = -1
        if self._token_is_ours:
            self._door.token_file.unlink(missing_ok=True)
        await trio.lowlevel.checkpoint()


def launch(plan: Plan, _log: TextIO) -> JoinLaunch:
    """The launcher of the join driver; ScenarioError if the plan has no endpoint."""
    if plan.door is None:
        raise ScenarioError(
            "driver", "join", "it is only available with `coordinator serve`; use another driver for `coordinator run`"
        )
    return JoinLaunch(plan.door)

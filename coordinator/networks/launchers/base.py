"""The interface of launchers of host processes; one implementation per driver."""

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from enum import StrEnum


class ProcessState(StrEnum):
    """The state of the process of a host, as the machine shows it."""

    RUNNING = "running"
    STOPPED = "stopped"
    ENDED = "ended"


class Launch(ABC):
    """Starts the host processes of one run. Call `prepare`, `start` and `stop` in this order, once each."""

    can_kill = False
    """Whether `kill`, `restart`, `pause` and `resume` reach a host's process."""
    means: Mapping[str, str] = {
        "kill": "SIGKILL",
        "stop": "SIGSTOP",
        "continue": "SIGCONT",
        "restart": "a new process",
    }
    """The signals or calls that kill, stop, continue and restart its processes."""
    preloads_network = False
    """Whether hosts have read a network that comes from a file by themselves, so that it need not be sent."""
    join_seconds = 60.0
    """How long to wait for the next host to join."""
    ends_at = math.inf
    """When a run has to end, on the monotonic clock, because a scheduler will kill its hosts soon."""
    hosts_outlive_run = False
    """Whether hosts stay connected until this process ends, and surplus hosts are kept in reserve.

    For hosts under a supervisor that takes the end of one host for the end of the run.
    """

    def token(self) -> bytes:
        """Return the secret that hosts have to know; by default a new secret."""
        return secrets.token_hex(32).encode()

    async def prepare(self) -> tuple[str, int]:
        """Create what hosts need, and return the address and port to connect to.

        Port 0 stands for any port. Raises RunError on failure; `stop` removes whatever was created.
        """
        return "127.0.0.1", 0

    @abstractmethod
    def start(self, port: int, token: bytes, hosts: int) -> int:
        """Start `hosts` hosts that connect to `port`; returns a descriptor that is readable when `check` is due."""

    def joined(self, host: int, node: str) -> None:  # noqa: B027  # most launchers need not know
        """Note that host `host` has joined, from the machine or container `node`."""

    def addresses(self, host: int) -> tuple[str, str]:
        """Return the address where `host` listens (empty: the address it joined from) and the address that it dials
        from (empty: any).
        """
        return "", ""

    def missing(self, joined: Collection[str], absent: Collection[int]) -> str:
        """Return a message about hosts that did not join: the names of hosts that joined, the indices of the others."""
        return f"{len(absent)} of {len(joined) + len(absent)} hosts never joined"

    @abstractmethod
    def check(self) -> None:
        """Raise RunError if hosts that should start or run cannot."""

    async def kill(self, host: int, pid: int) -> None:
        """Kill the process of a host (SIGKILL)."""
        raise NotImplementedError

    async def restart(self, host: int) -> None:
        """Start a host again after `kill`."""
        raise NotImplementedError

    async def pause(self, host: int, pid: int) -> None:
        """Stop the process of a host, so that `resume` can continue it."""
        raise NotImplementedError

    async def resume(self, host: int, pid: int) -> None:
        """Undo `pause`; the process goes on where it was stopped."""
        raise NotImplementedError

    async def state(self, host: int, pid: int) -> ProcessState:
        """Return the state of the process of a host, for launchers that can kill."""
        raise NotImplementedError

    @abstractmethod
    async def stop(self) -> None:
        """Wait briefly for every process to exit, then kill it; remove everything that was created."""

"""What the control connection's owner asks of whatever starts hosts; one implementation a driver."""

import secrets
from collections.abc import Collection


class Launch:
    """How host processes come to be: prepared, started, struck by faults, stopped, in this order and once each."""

    can_kill = False
    """Whether `kill`, `restart`, `pause` and `resume` reach a host's process."""
    join_seconds = 60.0
    """How long hosts may take to join without any news."""
    hosts_outlive_run = False
    """Whether hosts stay connected until this process ends, and hosts beyond those wanted are kept in reserve.

    For hosts that somebody else watches, who takes the end of one for the end of all.
    """

    def token(self) -> bytes:
        """The secret that hosts prove to know: by default a new one."""
        return secrets.token_hex(32).encode()

    async def prepare(self) -> tuple[str, int]:
        """Make what hosts need before they start; the address and port at which to wait for them (port 0: any).

        Raises RunError when that cannot be made; `stop` removes what was.
        """
        return "127.0.0.1", 0

    def start(self, port: int, token: bytes, hosts: int) -> int:
        """Start `hosts` hosts that will connect to `port`; a descriptor that is readable when they need a `check`."""
        raise NotImplementedError

    def joined(self, host: int) -> None:
        """Take note that host `host` has joined."""

    def addresses(self, host: int) -> tuple[str, str]:
        """Where host `host` listens (empty: where it reached us from), and where it dials from (empty: any)."""
        return "", ""

    def missing(self, joined: Collection[str], absent: Collection[int]) -> str:
        """Say which hosts never joined, given the names of those that did and the indices of those that did not."""
        return f"{len(absent)} of {len(joined) + len(absent)} hosts never joined"

    def check(self) -> None:
        """Raise RunError when hosts that should come up or stay up cannot."""
        raise NotImplementedError

    async def kill(self, host: int, pid: int) -> None:
        """SIGKILL the process of a host."""
        raise NotImplementedError

    async def restart(self, host: int) -> None:
        """Start a host again whose process was killed."""
        raise NotImplementedError

    async def pause(self, host: int, pid: int) -> None:
        """Stop the process of a host where it is."""
        raise NotImplementedError

    async def resume(self, host: int, pid: int) -> None:
        """Let it go on."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Wait briefly for every process to leave, then make it; remove everything that was made."""
        raise NotImplementedError

"""Faults that processes suffer: sends them through a launcher, and logs when each was sent and when its effect was seen.

The effect is read from the machine, as the state of the process or of the container, and is not taken for granted. So a
fault that was planned and never carried out leaves no line in `log.jsonl`, and the line of a fault without effect says
so.
"""

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import trio

from coordinator.history.run_directory import PROCESS_FAULT
from coordinator.networks.admission import ConnectedHost
from coordinator.networks.launchers.base import Launch, ProcessState
from emunode.logging import log, prepare_log

SEEN_SECONDS: Final = 10.0
"""The longest wait for the effect of a fault."""
POLL_SECONDS: Final = 0.002
RESULTS: Final[Mapping[str, ProcessState]] = {
    "kill": ProcessState.ENDED,
    "stop": ProcessState.STOPPED,
    "continue": ProcessState.RUNNING,
    "restart": ProcessState.RUNNING,
}
"""By action, the state of the process after it."""


class Sent(NamedTuple):
    """One action on the process of a host, whose effect is still to be seen."""

    action: str
    host: int
    name: str
    """Of its machine or container."""
    pid: int
    time: datetime
    clock: float
    """The reading of the monotonic clock, in seconds."""


class ProcessActions:
    """Acts on the processes of hosts. Call `seen` after the actions of one time; after a restart with the new process id.

    `expected` says that faults are planned: then the log is prepared, so that no line keeps the run waiting.
    """

    def __init__(self, launch: Launch, *, expected: bool) -> None:
        self._launch = launch
        if expected and launch.can_kill:
            prepare_log()

    async def kill(self, host: ConnectedHost) -> Sent:
        """Kill the process of a host."""
        return await self._send("kill", host, self._launch.kill)

    async def stop(self, host: ConnectedHost) -> Sent:
        """Stop the process of a host."""
        return await self._send("stop", host, self._launch.pause)

    async def resume(self, host: ConnectedHost) -> Sent:
        """Let the process of a host continue."""
        return await self._send("continue", host, self._launch.resume)

    async def restart(self, host: ConnectedHost) -> Sent:
        """Start another process for a host whose process was killed."""
        return await self._send("restart", host, lambda index, _: self._launch.restart(index))

    @staticmethod
    async def _send(action: str, host: ConnectedHost, act: Callable[[int, int], Coroutine[None, None, None]]) -> Sent:
        sent = Sent(action, host.index, host.name, host.pid, datetime.now(UTC), time.monotonic())
        await act(host.index, host.pid)
        return sent

    async def seen(self, sent: Sequence[Sent], when: Mapping[str, float]) -> None:
        """Wait until the machine shows the effect of each action, then log it.

        `when` is the step or the virtual time of the faults; it may be empty.
        """
        found = [(each, *await self._result(each)) for each in sent]
        # Afterwards: the first line takes tens of milliseconds, and the next effect would not be seen meanwhile.
        for each, state, after in found:
            log(
                PROCESS_FAULT,
                action=each.action,
                host=each.host,
                name=each.name,
                pid=each.pid,
                means=self._launch.means[each.action],
                **when,
                sent=each.time.isoformat(timespec="microseconds"),
                seen=str(state),
                seen_after_seconds=after,
            )

    async def _result(self, sent: Sent) -> tuple[ProcessState, float | None]:
        """Return the state of the process, and the seconds until it was the wanted one; None if it never was."""
        wanted = RESULTS[sent.action]
        while True:
            state = await self._launch.state(sent.host, sent.pid)
            after = time.monotonic() - sent.clock
            if state is wanted:
                return state, round(after, 6)
            if after > SEEN_SECONDS:
                return state, None
            await trio.sleep(POLL_SECONDS)

"""The I/O core of a host without its nodes: `FramedStreams` under trio with one parked task per node.

Real hosts answer the other questions.
"""

import os
import socket
import time
from array import array
from functools import partial

import trio
import trio.testing

from benchmarks.worker import answer
from emunode.host.parking import at_every_wake, parked_message
from emunode.host.process import LINGER_SECONDS, keep_memory
from emunode.net import wire
from emunode.net.framed_streams import FramedStreams
from emunode.runtime import collect_seldom


def packets(ends: list[int], size: int, rounds: int, degree: int) -> float:
    """Return packets per CPU second: every end writes one and reads one, `rounds` times."""
    keep_memory()
    collect_seldom()
    packet = wire.frame(bytes(size - wire.LENGTH.size))
    slots = array("i", [-1]) * (max(ends) + 1)
    for slot, fd in enumerate(ends):
        slots[fd] = slot
    arrived: list[int] = []
    queue: list[tuple[int, bytes]] = []
    order = _by_link(ends)

    def on_frame(fd: int, _frame: bytes) -> None:
        arrived.append(slots[fd])

    def on_end(_fd: int, why: str) -> None:
        raise SystemExit(why)

    streams = FramedStreams(on_frame, on_end)
    for fd in ends:
        streams.add(fd, authenticated=True)

    async def main() -> float:
        tasks: list[trio.lowlevel.Task] = []
        working, parked = 0, parked_message()

        async def node(own: list[int]) -> None:
            tasks.append(trio.lowlevel.current_task())
            await at_every_wake(parked, partial(take_turn, own))

        def take_turn(own: list[int]) -> None:
            nonlocal working
            queue.extend((fd, packet) for fd in own)
            working -= 1
            if not working:
                queue.sort(key=lambda pair: order[pair[0]])
                streams.exchange(queue)

        async with trio.open_nursery() as nursery:
            for first in range(0, len(ends), degree):
                nursery.start_soon(node, ends[first : first + degree])
            await trio.testing.wait_all_tasks_blocked()
            began = time.process_time()
            for _ in range(rounds):
                arrived.clear()
                working = len(tasks)
                for task in tasks:
                    trio.lowlevel.reschedule(task)
                while streams.poll() or working:
                    if working:
                        await trio.lowlevel.checkpoint()
                while len(arrived) < len(ends):
                    await streams.wait(LINGER_SECONDS)
                    while streams.poll():
                        pass
            spent = time.process_time() - began
            nursery.cancel_scope.cancel()
        return spent

    spent = trio.run(main)
    streams.close_poller()
    return len(ends) * rounds / spent


def _by_link(ends: list[int]) -> dict[int, int]:
    """Return a number for each end, the same for both ends of a link, since a host writes link by link."""
    numbers: dict[object, int] = {}
    order = {}
    for number, fd in enumerate(ends):
        with socket.socket(fileno=os.dup(fd)) as stream:
            names = frozenset((stream.getsockname(), stream.getpeername()))
        order[fd] = numbers.setdefault(names, number)
    return order


if __name__ == "__main__":
    answer({"packets": packets})

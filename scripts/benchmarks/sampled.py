"""Where host processes spend their processor time, by a sampling profiler that the benchmark starts in them."""

import linecache
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from json import loads
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import trio

from benchmarks.networks import network_up, plan_of, run_steps
from benchmarks.sections.stack import busy_plan
from benchmarks.subprocesses import SCRIPTS, ProgramError
from coordinator.networks.link_waves import LinkWaves

STALL_SECONDS = 20.0
CALLS = (
    (r"\b(write|writev|send|sendmsg)\(", "system call: write"),
    (r"\b(read|readv|recv)\(", "system call: read"),
    (r"epoll\.poll\(", "system call: epoll_wait"),
    (r"\b(accept|connect|connect_ex|bind|socket|register|unregister|setsockopt|setblocking)\(", "system call: set up"),
)
"""Text of a line in `emunode/net` or `emunode/host`, and the system call that it makes."""
PARTS = (
    ("trio/", "trio"),
    ("emunode/net/wire", "wire: encoding and decoding"),
    ("emunode/net/authentication", "authentication of links"),
    ("emunode/net/", "streams: events and frames"),
    ("emunode/host/link_table", "links of a host"),
    ("emunode/host/", "host: orders, steps, reports"),
    ("emunode/engine/node", "nodes: reading, deciding, merging"),
    ("emunode/engine/", "engine: handing over packets"),
    ("emunode/algorithms/", "rules of the algorithm"),
    ("emunode/trees/", "rules of the algorithm"),
    ("emunode/topologies/", "arithmetic of the network"),
)
"""Part of a path, and the part of the work; the first that fits counts."""


def part_of(place: str) -> str:
    """Return the part of the work that a line, as `file:line`, belongs to."""
    file, _, number = place.rpartition(":")
    if "emunode/net/" in file or "emunode/host/" in file:
        text = linecache.getline(file, int(number))
        for pattern, title in CALLS:
            if re.search(pattern, text):
                return title
    return next((title for path, title in PARTS if path in file), "other")


class Sampler:
    """Starts and stops the profiler in host processes, and adds up its samples."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.shares: Counter[str] = Counter()

    @asynccontextmanager
    async def sampling(self, pids: Sequence[int]) -> AsyncIterator[None]:
        """Sample these hosts within the block; ProgramError if one does not answer."""
        for pid in pids:
            os.kill(pid, signal.SIGUSR1)
        yield
        for pid in pids:
            os.kill(pid, signal.SIGUSR2)
        for pid in pids:
            path = self._folder / f"{pid}.json"
            with trio.move_on_after(STALL_SECONDS):
                while not path.exists():  # noqa: ASYNC110 - written by another process
                    await trio.sleep(0.01)
            if not path.exists():
                raise ProgramError(f"no samples of host process {pid} after {STALL_SECONDS:g} s")
            for place, count in loads(path.read_text()).items():
                self.shares[part_of(place)] += count


@contextmanager
def _sampler() -> Iterator[Sampler]:
    """Provide a sampler whose hosts find the profiler at their start."""
    with TemporaryDirectory(prefix="bench-") as folder:
        paths = os.pathsep.join(filter(None, (str(SCRIPTS / "benchmarks" / "sampling"), os.environ.get("PYTHONPATH"))))
        with patch.dict(os.environ, {"PYTHONPATH": paths, "BENCH_SAMPLES": folder}):
            yield Sampler(Path(folder))


def packets(topology: str, steps: int) -> Counter[str]:
    """Return samples by part of one host while packets of a busy allgather cross."""

    async def measured() -> None:
        async with network_up(busy_plan(topology, 56, 1)) as network, sampler.sampling(network.pids):
            await run_steps(network, steps)

    with _sampler() as sampler:
        trio.run(measured)
        return sampler.shares


def links(topology: str) -> Counter[str]:
    """Return samples by part of all hosts from the first dial to the last open link."""
    connect = LinkWaves.connect

    async def sampled(self: LinkWaves, *arguments: object) -> None:
        async with sampler.sampling([host.pid for host in self._channel.in_order]):
            await connect(self, *arguments)  # type: ignore[arg-type]

    async def measured() -> None:
        async with network_up(plan_of(topology=topology)):
            pass

    with _sampler() as sampler, patch.object(LinkWaves, "connect", sampled):
        trio.run(measured)
        return sampler.shares


def idle(topology: str, hosts: int, steps: int) -> Counter[str]:
    """Return samples by part of all hosts during steps when all hosts report and nothing else happens."""

    async def measured() -> None:
        plan = plan_of(topology=topology)
        plan = plan_of(topology=topology, ranks_per_host=-(-plan.topology.order // hosts))
        async with network_up(plan) as network:
            step = 1
            while (await network.step(step, ())).busy:
                step += 1
            async with sampler.sampling(network.pids):
                for later in range(step + 1, step + 1 + steps):
                    await network.barrier.step(later, (), everyone=True)

    with _sampler() as sampler:
        trio.run(measured)
        return sampler.shares

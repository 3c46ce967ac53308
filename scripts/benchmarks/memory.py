"""How much memory sockets and processes take: what the kernel says, and what is each process's own."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Self

import psutil

PAGE_BYTES = 4096
KERNEL_FIELDS = ("Slab", "KernelStack", "PageTables")
SETTLED_BYTES = 256 * 1024


class Memory(NamedTuple):
    """Bytes of kernel and user memory."""

    kernel: int
    user: int

    @property
    def total(self) -> int:
        """Both."""
        return self.kernel + self.user


def kernel_bytes() -> int:
    """What the kernel holds for all processes: slabs, stacks, page tables, and what lies in socket buffers."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    held = sum(int(fields[name].split()[0]) * 1024 for name in KERNEL_FIELDS)
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        if line.startswith("TCP:"):
            words = line.split()
            held += int(words[words.index("mem") + 1]) * PAGE_BYTES
    return held


def settled_kernel_bytes(seconds: float = 5.0) -> int:
    """`kernel_bytes` once it has stopped falling, for closed sockets are freed a little later."""
    last, deadline = kernel_bytes(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.2)
        now = kernel_bytes()
        if now > last - SETTLED_BYTES:
            return now
        last = now
    return last


def user_bytes(pids: Iterable[int]) -> int:
    """Proportional set size of these processes; those that are gone count nothing."""
    held = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        held += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return held


def descendants(pid: int) -> list[int]:
    """A process and all that come from it."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return []


class Peak:
    """The most memory in use while it is entered, looked at every `seconds`; the kernel's beyond what it was before."""

    def __init__(self, pids: Callable[[], Iterable[int]], seconds: float = 1.0) -> None:
        self._pids = pids
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.most = Memory(0, 0)

    def __enter__(self) -> Self:
        self._before = settled_kernel_bytes()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def look(self) -> None:
        """Look now."""
        now = Memory(max(0, kernel_bytes() - self._before), user_bytes(self._pids()))
        self.most = max(self.most, now, key=lambda memory: memory.total)

    def _watch(self) -> None:
        while not self._over.wait(self._seconds):
            self.look()

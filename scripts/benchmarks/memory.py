"""Memory of sockets and processes: kernel memory of the machine, and user memory per process."""

import contextlib
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
        """Sum of kernel and user bytes."""
        return self.kernel + self.user


def kernel_bytes() -> int:
    """Return the kernel memory of all processes: slabs, stacks, page tables and socket buffers."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    held = sum(int(fields[name].split()[0]) * 1024 for name in KERNEL_FIELDS)
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        if line.startswith("TCP:"):
            words = line.split()
            held += int(words[words.index("mem") + 1]) * PAGE_BYTES
    return held


def settled_kernel_bytes(seconds: float = 5.0) -> int:
    """Return `kernel_bytes` after it has stopped falling, because closed sockets are freed with a delay."""
    last, deadline = kernel_bytes(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.2)
        now = kernel_bytes()
        if now > last - SETTLED_BYTES:
            return now
        last = now
    return last


def user_bytes(pids: Iterable[int]) -> int:
    """Return the proportional set size of these processes, without those that have ended."""
    held = 0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            held += psutil.Process(pid).memory_full_info().pss
    return held


def descendants() -> list[int]:
    """Process numbers of the running descendants of this process."""
    return [child.pid for child in psutil.Process().children(recursive=True)]


class Peak:
    """Peak memory while the context is entered, sampled every `seconds`; kernel memory is counted relative to its start."""

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
        """Take a sample immediately."""
        now = Memory(max(0, kernel_bytes() - self._before), user_bytes(self._pids()))
        self.most = max(self.most, now, key=lambda memory: memory.total)

    def _watch(self) -> None:
        while not self._over.wait(self._seconds):
            self.look()

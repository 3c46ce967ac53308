"""The memory that this machine and the control groups of this process leave."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
UNLIMITED = 2**60
"""Limits from this number on mean that there is no limit: the first version of control groups writes the largest number."""


def available_memory() -> int:
    """Return the bytes that new processes can use without swapping, within the limit of their container or service."""
    return min([free_memory(), *_left_in_groups()])


def free_memory() -> int:
    """Return the bytes that the machine has for new processes, by the kernel's own estimate."""
    # Not from psutil, which takes longer to import than the plan of a small network to make.
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return 1024 * int(value.split()[0])
    raise OSError("/proc/meminfo has no line MemAvailable")


def _left_in_groups() -> Iterator[int]:
    """Yield the bytes that the control groups of this process leave; nothing where no group limits memory."""
    for group, most, used in _limited_groups(CONTROL_GROUPS):
        with contextlib.suppress(OSError, ValueError):  # the limit was lifted
            # Pages of files are counted as used, although they are given up on demand.
            yield int((group / most).read_text()) - int((group / used).read_text()) + _cached(group)


@lru_cache(1)
def _limited_groups(root: Path) -> Sequence[tuple[Path, str, str]]:
    """Return the control groups of this process that limit its memory, of either version, with the files of limit and
    usage.

    They are looked for once: that takes as long as the rest of a short run.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ()
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            folder, most, used = root, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            folder, most, used = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = folder / path.lstrip("/")
        # A container may see its own group as the root; a group above may be the one with the limit.
        for each in (group, *(parent for parent in group.parents if parent.is_relative_to(folder))):
            with contextlib.suppress(OSError, ValueError):  # no such file; the word `max`
                if int((each / most).read_text()) < UNLIMITED:
                    found.append((each, most, used))
    return found


def _cached(group: Path) -> int:
    """Return the bytes of a control group that the kernel can take back: inactive pages of files."""
    with contextlib.suppress(OSError):
        for line in (group / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                return int(value)
    return 0

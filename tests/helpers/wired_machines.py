"""Two machines with one wire between them: network namespaces that a test may cut."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def ip(*words: str) -> str:
    """Return the output of a command of ip(8)."""
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30).stdout


@contextmanager
def wired(addresses: Mapping[str, str]) -> Iterator[None]:
    """Connect two namespaces, given by name and address, by one wire."""
    one, two = addresses
    try:
        for name in addresses:
            ip("netns", "add", name)
        ip("-n", one, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", two)
        for name, address in addresses.items():
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "wire")
            for link in ("lo", "wire"):
                ip("-n", name, "link", "set", link, "up")
        yield
    finally:
        for name in addresses:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True, timeout=30)

"""Admission of hosts to a run: challenge each new connection, check its proof and version, and give it a place.

This decides only; `ControlChannel` carries the decisions out. Nothing of a peer without proof is ever parsed.
"""

import os
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from emunode import __version__
from emunode.errors import FrameError
from emunode.model import ANY_HOST
from emunode.net import validation, wire

IN_RESERVE = -1
"""The index of a host that is connected and has no part in the run."""


class ConnectedHost:
    """A host that was admitted, as the coordinator knows it."""

    __slots__ = (
        "address",
        "alive",
        "end_expected",
        "fd",
        "index",
        "name",
        "paused_since",
        "paused_until",
        "pid",
        "restarted",
        "restarting",
    )

    def __init__(self, fd: int, index: int, pid: int, name: str, address: str) -> None:
        self.fd = fd
        self.index = index
        self.pid = pid
        self.name = name
        """The name of its machine or container."""
        self.address = address
        """Where other hosts dial it, unless the launcher gives another address."""
        self.alive = True
        self.end_expected = False
        """Whether its process was killed, or was sent an order to leave."""
        self.restarting = False
        """Whether its process was killed and another one may take its place."""
        self.restarted = False
        """Whether it replaces a host whose process was killed."""
        self.paused_until = 0
        """The last step while the host's process is stopped, or 0."""
        self.paused_since = 0
        """The step when the host's process was stopped."""

    @property
    def active(self) -> bool:
        """Whether its process is there and not stopped."""
        return self.alive and not self.paused_until


class HostRefusedError(FrameError):
    """A host that proved itself and still cannot take part; `reply` gives it the reason before it is disconnected."""

    def __init__(self, reason: str, proof: bytes) -> None:
        super().__init__(reason)
        self.reply = proof + wire.encode_control("refused", reason)


class Admitted(NamedTuple):
    """A host with a place, or in reserve; the hosts in `unreachable` have to leave for it, each for a reason."""

    host: ConnectedHost
    proof: bytes
    """The coordinator's proof, to be sent to it."""
    unreachable: Mapping[int, str]


class Admission:
    """Admits hosts that know `token` to the `places` of a run.

    `joined`: the hosts were started elsewhere, perhaps on several machines. They must be able to dial one another, and those
    beyond `places` are kept in reserve.
    """

    def __init__(self, token: bytes, places: int, *, joined: bool) -> None:
        self._token = token
        self._places = places
        self._joined = joined
        self._challenges: dict[int, bytes] = {}
        self.refusals: Counter[str] = Counter()
        """How many hosts were refused, by reason."""

    def challenge(self, fd: int) -> bytes:
        """Return the frame to send on a new connection."""
        # A nonce per connection: a proof that was overheard is worth nothing on another one.
        self._challenges[fd] = os.urandom(wire.NONCE_BYTES)
        return wire.frame(self._challenges[fd])

    @property
    def pending(self) -> list[int]:
        """Connections that have not proved anything yet."""
        return list(self._challenges)

    def admit(self, fd: int, frame: bytes, peer_address: str, hosts: Mapping[int, ConnectedHost]) -> Admitted:
        """Decide on a hello, given the hosts so far.

        HostRefusedError or another FrameError, if the host cannot take part: no proof, another version, no place left, or an
        address that other hosts cannot dial.
        """
        # Proof first: `read_host_hello` parses the message only after it has checked the proof.
        nonce, hello = wire.read_host_hello(frame, self._token, self._challenges[fd])
        proof = wire.frame(wire.prove(self._token, b"coordinator", nonce))
        index, pid, name, address = self._read(hello, proof, peer_address)
        if index == ANY_HOST:
            # The lowest free place; None left means that the host waits in reserve.
            index = next((free for free in range(self._places) if free not in hosts), IN_RESERVE)
        before = hosts.get(index)
        reserve = index == IN_RESERVE and self._joined
        # A place is taken unless its host was killed and is being replaced.
        if (not reserve and not 0 <= index < self._places) or (before is not None and not before.restarting):
            raise FrameError(f"there is no place for a host with index {index}")
        unreachable: Mapping[int, str] = {}
        # Hosts of a local run are all on this machine; a replacement has the address of its predecessor.
        if self._joined and not reserve and before is None:
            unreachable = _unreachable_hosts(address, hosts, proof)
        # Only now: a refused connection stays pending until it is closed, and is counted there.
        del self._challenges[fd]
        host = ConnectedHost(fd, index, pid, name, address)
        host.restarted = before is not None
        return Admitted(host, proof, unreachable)

    def _read(self, hello: wire.Control, proof: bytes, peer_address: str) -> tuple[int, int, str, str]:
        """Read index, process id, name and address of a host whose version is ours."""
        match hello:
            # Any difference in version: rows and orders have no compatibility between versions.
            case "hello", str(version), *_ if version != __version__:
                raise HostRefusedError(
                    f"emunode {version} cannot join coordinator {__version__}: install the same version on both sides",
                    proof,
                )
            case "hello", _, int(index), int(pid), str(name), *address if pid > 0:
                return index, pid, name, validation.address(address[0]) if address else peer_address
        raise FrameError(f"malformed hello {hello!r:.200}")

    def forget(self, fd: int, reason: str) -> bool:
        """Note that a connection ended; return whether it had no place."""
        pending = self._challenges.pop(fd, None) is not None
        if pending:
            self.refusals[reason] += 1
        return pending


def _unreachable_hosts(address: str, hosts: Mapping[int, ConnectedHost], proof: bytes) -> Mapping[int, str]:
    """Return the hosts at loopback addresses that a host at `address`, on another machine, cannot dial, with the
    reason.

    HostRefusedError if it is the new host that has the loopback address.
    """
    # One loopback address and one other: these two cannot dial each other.
    others = [host for host in hosts.values() if _is_loopback(host.address) != _is_loopback(address)]
    if others and _is_loopback(address):
        raise HostRefusedError(_unreachable(address, others[0].address), proof)
    return {host.index: _unreachable(host.address, address) for host in others}


def _is_loopback(address: str) -> bool:
    # 127.0.0.0/8 is loopback as a whole.
    return address.startswith("127.")


def _unreachable(local: str, remote: str) -> str:
    return (
        f"it joined at {local}, where the host at {remote} cannot dial it; join by an address that other machines reach, "
        "or use emunode --advertise ADDRESS"
    )

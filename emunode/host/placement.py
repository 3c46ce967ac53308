"""The placement of ranks on hosts: consecutive blocks by arithmetic, any other placement by a table."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, overload

from emunode.errors import FrameError
from emunode.model import Rank

if TYPE_CHECKING:
    from emunode.net.protocol import HostConfig

TYPE = "i"
"""Type of the hosts in a table: four bytes each."""


class RankList(Sequence[Rank]):
    """Ascending ranks of a host that need not be consecutive. Membership and `index` take constant time, as in a range."""

    __slots__ = ("_places", "_ranks")

    def __init__(self, ranks: Iterable[Rank]) -> None:
        self._ranks = tuple(ranks)
        self._places: dict[object, int] = {rank: place for place, rank in enumerate(self._ranks)}

    @overload
    def __getitem__(self, place: int) -> Rank: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Rank, ...]: ...

    def __getitem__(self, place: int | slice) -> Rank | tuple[Rank, ...]:
        return self._ranks[place]

    def __len__(self) -> int:
        return len(self._ranks)

    def __iter__(self) -> Iterator[Rank]:
        return iter(self._ranks)

    def __contains__(self, rank: object) -> bool:
        return rank in self._places

    def index(self, rank: object, *_bounds: int) -> int:
        """Return the place of a rank; KeyError if the host does not run the rank."""
        return self._places[rank]


HostRanks = range | RankList
"""The ranks of one host, ascending."""


class Placement:
    """`order` ranks on `hosts` hosts: by `table`, or in blocks whose sizes differ by at most one if the table is empty.

    Topologies number ranks so that consecutive ones are close (a substar, a subcube, a lower dimension), so blocks keep
    neighbours together. A table has the host of each rank, as packed C integers; ValueError if it leaves a host without
    ranks, names another host or has another length.
    """

    def __init__(self, order: int, hosts: int, table: bytes = b"") -> None:
        self.order = order
        self.hosts = hosts
        self.table = table
        self._hosts: array[int] | None = None
        if table:
            if len(table) != order * array(TYPE).itemsize:
                raise ValueError(f"a table of {len(table)} bytes for {order} ranks")
            self._hosts = array(TYPE, table)
            used = set(self._hosts)
            # Without a look at every host: a set of `hosts` numbers between 0 and `hosts` - 1 is all of them.
            if len(used) != hosts or min(used) < 0 or max(used) >= hosts:
                raise ValueError(f"a table that does not give ranks to each of {hosts} hosts, and to no other")

    def host(self, rank: Rank) -> int:
        """Return the host that runs `rank`."""
        # By arithmetic: a table would take memory for every rank at every host. `ranks` is the inverse.
        return rank * self.hosts // self.order if self._hosts is None else self._hosts[rank]

    def ranks(self, host: int) -> HostRanks:
        """Return the ranks that `host` runs."""
        if self._hosts is not None:
            first, end = self._starts[host], self._starts[host + 1]
            return RankList(self._by_host[first:end])
        # Ceilings on both sides, so that blocks meet without a gap.
        return range(-(-host * self.order // self.hosts), -(-(host + 1) * self.order // self.hosts))

    @cached_property
    def sizes(self) -> list[int]:
        """The number of ranks of each host."""
        if self._hosts is None:
            return [len(self.ranks(host)) for host in range(self.hosts)]
        counts = [0] * self.hosts
        for host in self._hosts:
            counts[host] += 1
        return counts

    @cached_property
    def _by_host(self) -> "array[int]":
        """The ranks of host 0, then of host 1, and so on."""
        assert self._hosts is not None
        # Sorting keeps the order of ranks within a host.
        return array("q", sorted(range(self.order), key=self._hosts.__getitem__))

    @cached_property
    def _starts(self) -> list[int]:
        """The place of the first rank of each host in `_by_host`, and the end of the last host."""
        starts = [0]
        for size in self.sizes:
            starts.append(starts[-1] + size)
        return starts


def placement_of(config: "HostConfig", order: int) -> Placement:
    """Return the placement in the configuration of a host for a network of `order` ranks; FrameError if it does not fit."""
    try:
        return Placement(order, config.hosts, config.placement)
    except ValueError as error:
        raise FrameError(f"placement: {error}") from None

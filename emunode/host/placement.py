"""Which host runs which ranks: consecutive blocks, by arithmetic, so that nobody keeps a table."""

from emunode.model import Rank


class Placement:
    """`order` ranks over `hosts` hosts, sizes differing by at most one.

    Ranks count so that consecutive ones are near each other (a substar, a subcube, a lower dimension), so blocks keep
    neighbours together.
    """

    __slots__ = ("hosts", "order")

    def __init__(self, order: int, hosts: int) -> None:
        self.order = order
        self.hosts = hosts

    def host(self, rank: Rank) -> int:
        """The host that runs `rank`."""
        return rank * self.hosts // self.order

    def ranks(self, host: int) -> range:
        """The ranks that `host` runs."""
        return range(-(-host * self.order // self.hosts), -(-(host + 1) * self.order // self.hosts))

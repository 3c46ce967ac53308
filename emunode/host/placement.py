"""The placement of ranks on hosts: consecutive blocks, computed by arithmetic instead of stored in a table."""

from emunode.model import Rank


class Placement:
    """`order` ranks on `hosts` hosts, in blocks whose sizes differ by at most one.

    Topologies number ranks so that consecutive ones are close (a substar, a subcube, a lower dimension), so blocks keep
    neighbours together.
    """

    __slots__ = ("hosts", "order")

    def __init__(self, order: int, hosts: int) -> None:
        self.order = order
        self.hosts = hosts

    def host(self, rank: Rank) -> int:
        """Return the host that runs `rank`."""
        # By arithmetic: a table would take memory for every rank at every host. `ranks` is the inverse.
        return rank * self.hosts // self.order

    def ranks(self, host: int) -> range:
        """Return the ranks that `host` runs."""
        # Ceilings on both sides, so that blocks meet without a gap.
        return range(-(-host * self.order // self.hosts), -(-(host + 1) * self.order // self.hosts))

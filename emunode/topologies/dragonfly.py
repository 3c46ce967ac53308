"""Dragonfly: groups of routers, all linked within a group, and as many links between every two groups.

The global links are arranged as a palm tree (Garcia, Camarero, Vallejo and Beivide 2014), or as several of them one after
the other; the network is by Kim, Dally, Scott and Abts 2008. A rank is a router; its terminals are not nodes of the
network. The rotation of the groups keeps ports, but no translation carries one router of a group to another.
"""

import re
from typing import Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import DirectDistances, RegularTopology


@register
class Dragonfly(DirectDistances, RegularTopology):
    """g = a h / l + 1 groups of a routers with h global links each; rank G a + r.

    Port p < a-1 leads to router (r + p + 1) mod a of the group. Port a-1+k is global link j = r h + k of group G. It
    leads to group (G - j mod (g-1) - 1) mod g and is link a h - 1 - j there. With l <= a, the l links between two groups
    join different routers.

    >>> network = Dragonfly.parse("3,1")
    >>> network.order, network.degree, network.diameter
    (12, 3, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("2/0"))]
    ['2/1', '2/2', '1/2']
    """

    family = "dragonfly"
    form = "dragonfly:A,H or dragonfly:A,H,L"
    condition = "A >= 2, H >= 1, 1 <= L <= A divides A H, A (A H / L + 1) < 2^63"
    example = "dragonfly:4,2"
    describe = (
        "dragonfly: A H / L + 1 groups of A routers, all linked, each with H global links; L links (1) a pair of groups"
    )
    small_examples = ("dragonfly:3,1", "dragonfly:2,2", "dragonfly:4,2,2", "dragonfly:4,2")
    large_examples = ("dragonfly:16,8",)

    def __init__(self, a: int, h: int, pair_links: int = 1) -> None:
        """Make the network with `pair_links` links between every two groups.

        Raises ScenarioError (field `topology`) for numbers out of `condition`.
        """
        self.name = f"dragonfly:{a},{h}" + (f",{pair_links}" if pair_links != 1 else "")
        self.require(a >= 2, "a group needs at least 2 routers: groups of one router are the complete graph")
        self.require(h >= 1, "a router needs at least 1 global link: without any the groups are not connected")
        if not 1 <= pair_links <= a or a * h % pair_links:
            allowed = [str(number) for number in range(1, min(a, 60) + 1) if a * h % number == 0]
            if a > 60:
                allowed.append("..")
            raise ScenarioError(
                "topology",
                self.name,
                f"the links between two groups are at most {a}, and their number divides {a * h}, the global links of a "
                f"group: {', '.join(allowed)}",
            )
        self.a, self.h, self.pair_links = a, h, pair_links
        self.groups = a * h // pair_links + 1
        self.order = a * self.groups
        self.require_order()
        self.degree = a - 1 + h
        self.title = f"dragonfly of {self.groups} groups of {a} routers"
        # No formula is proved between these two: there it is searched.
        if pair_links == 1:
            self.diameter = 3
        elif pair_links == a:
            self.diameter = 2
        if a > 2:
            self.bipartite = False  # three routers of a group are a triangle

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(*cls.parse_numbers(parameters, ",", 3 if parameters.count(",") == 2 else 2))

    def label(self, rank: Rank) -> str:
        """Return `group/router`."""
        return "{}/{}".format(*divmod(rank, self.a))

    def rank(self, label: str) -> Rank:
        match = re.fullmatch("(0|[1-9][0-9]{0,18})/(0|[1-9][0-9]{0,18})", label)
        if match is None or int(match[1]) >= self.groups or int(match[2]) >= self.a:
            raise ScenarioError(
                "label",
                label,
                f"a node of {self.name} is group/router, a group below {self.groups} and a router below {self.a}, "
                f"such as {self.label(self.order - 1)}",
            )
        return int(match[1]) * self.a + int(match[2])

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        a, h = self.a, self.h
        group, router = divmod(rank, a)
        if port < a - 1:
            return group * a + (router + port + 1) % a
        link = router * h + port - (a - 1)
        return (group - link % (self.groups - 1) - 1) % self.groups * a + (a * h - 1 - link) // h

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        local = self.a - 1
        reverse = local - 1 - port if port < local else local + self.h - 1 - (port - local)
        return self.neighbour(rank, port), reverse

    def distance(self, one: Rank, other: Rank) -> int:
        """Return the distance, at most 3: to a link between the groups, over it, and on. Two global links may be shorter."""
        group, other_group = one // self.a, other // self.a
        if group == other_group:
            return int(one != other)
        ours, theirs = self._global_neighbours(one), self._global_neighbours(other)
        if other in ours:
            return 1
        is_gate = any(each // self.a == other_group for each in ours) or any(each // self.a == group for each in theirs)
        return 2 if is_gate or not ours.isdisjoint(theirs) else 3

    def _global_neighbours(self, rank: Rank) -> set[Rank]:
        return {self.neighbour(rank, port) for port in range(self.a - 1, self.degree)}

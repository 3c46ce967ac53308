"""Proper edge colourings: links at one node have different colours, so the links of one colour are a matching.

A colouring is a numbering of ports with the same number at both ends of a link, and a schedule where every node talks
to one neighbour at a time. No simple graph needs more than one colour beyond its largest degree D (Vizing 1964), and a
bipartite graph needs D (Konig 1916). Links are pairs (u, v) with u < v, sorted and without repetition; the result has
the colour of every link in the same order.
"""

from collections.abc import Sequence

from emunode.model import Rank

LinkList = Sequence[tuple[Rank, Rank]]
ColourTable = dict[Rank, dict[int, Rank]]
"""For every node, the neighbour at the other end of its link of each colour."""


def greedy_colouring(links: LinkList) -> list[int]:
    """Return the lowest colour that is free at both ends, link by link: at most 2 D - 1 colours."""
    at = _empty_table(links)
    for one, other in links:
        colour = 0
        while colour in at[one] or colour in at[other]:
            colour += 1
        _paint(at, one, other, colour)
    return _colours(links, at)


def misra_gries_colouring(links: LinkList) -> list[int]:
    """Return a colouring of at most D + 1 colours (J. Misra and D. Gries, Information Processing Letters 41, 1992)."""
    at = _empty_table(links)
    for one, other in links:
        fan = _maximal_fan(at, one, other)
        free_here, free_there = _lowest_free(at[one]), _lowest_free(at[fan[-1]])
        if free_there in at[one]:
            _exchange(at, one, free_there, free_here)
        last = _end_of_rotation(at, one, fan, free_there)
        for place in range(last):
            colour = _colour_of(at, one, fan[place + 1])
            _erase(at, one, fan[place + 1], colour)
            _paint(at, one, fan[place], colour)
        _paint(at, one, fan[last], free_there)
    return _colours(links, at)


def konig_colouring(links: LinkList) -> list[int]:
    """Return a colouring of D colours for a bipartite graph; ValueError if the graph has an odd cycle that makes this
    fail.
    """
    at = _empty_table(links)
    for one, other in links:
        free_here, free_there = _lowest_free(at[one]), _lowest_free(at[other])
        if free_here in at[other]:
            # In a bipartite graph this alternating path never ends at `one`.
            _exchange(at, other, free_here, free_there)
        if free_here in at[one] or free_here in at[other]:
            raise ValueError("the graph is not bipartite")
        _paint(at, one, other, free_here)
    return _colours(links, at)


def edge_colouring(links: LinkList, *, bipartite: bool) -> list[int]:
    """Return a colouring of D colours for a bipartite graph, else the better of the greedy and the Misra-Gries
    colouring.
    """
    if bipartite:
        return konig_colouring(links)
    return min(greedy_colouring(links), misra_gries_colouring(links), key=lambda colours: max(colours, default=0))


def _empty_table(links: LinkList) -> ColourTable:
    return {end: {} for link in links for end in link}


def _colours(links: LinkList, at: ColourTable) -> list[int]:
    colours = {(one, other): colour for one in at for colour, other in at[one].items()}
    return [colours[link] for link in links]


def _paint(at: ColourTable, one: Rank, other: Rank, colour: int) -> None:
    at[one][colour], at[other][colour] = other, one


def _erase(at: ColourTable, one: Rank, other: Rank, colour: int) -> None:
    del at[one][colour], at[other][colour]


def _lowest_free(used: dict[int, Rank]) -> int:
    colour = 0
    while colour in used:
        colour += 1
    return colour


def _colour_of(at: ColourTable, one: Rank, other: Rank) -> int:
    return next(colour for colour, end in at[one].items() if end == other)


def _maximal_fan(at: ColourTable, centre: Rank, first: Rank) -> list[Rank]:
    """Return the neighbours of `centre` from `first` on: the colour of each one's link to the centre is free at the one
    before it.
    """
    fan = [first]
    found = True
    while found:
        found = False
        for colour in sorted(at[centre]):
            if colour not in at[fan[-1]] and at[centre][colour] not in fan:
                fan.append(at[centre][colour])
                found = True
                break
    return fan


def _exchange(at: ColourTable, start: Rank, first: int, second: int) -> None:
    """Exchange two colours along the alternating path that begins at `start` with `first`."""
    path, colour = [start], first
    while colour in at[path[-1]]:
        path.append(at[path[-1]][colour])
        colour = second if colour == first else first
    colours = [first if place % 2 == 0 else second for place in range(len(path) - 1)]
    for place, colour in enumerate(colours):
        _erase(at, path[place], path[place + 1], colour)
    for place, colour in enumerate(colours):
        _paint(at, path[place], path[place + 1], second if colour == first else first)


def _end_of_rotation(at: ColourTable, centre: Rank, fan: Sequence[Rank], colour: int) -> int:
    """Return the first place that ends a valid fan after the exchange and whose node has `colour` free."""
    place = 0
    while colour in at[fan[place]]:
        if _colour_of(at, centre, fan[place + 1]) in at[fan[place]]:
            raise AssertionError("the fan broke before a node with the free colour")
        place += 1
    return place

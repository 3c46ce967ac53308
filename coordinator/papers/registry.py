"""Which reproductions there are: a literal map, one line a reproduction."""

from collections.abc import Mapping
from difflib import get_close_matches

from coordinator.papers import (
    fragopoulou_akl_1993,
    fragopoulou_akl_1996,
    hussain,
    hussain_allgather,
    hussain_figures,
    hussain_network,
    johnsson_ho_allgather,
    johnsson_ho_alltoall,
    johnsson_ho_broadcast,
    johnsson_ho_figures,
    johnsson_ho_graphs,
    johnsson_ho_ipsc,
    johnsson_ho_scatter,
    johnsson_ho_summary,
    star_against_hypercube,
    timed_speedup,
    tseng_sheu,
)
from coordinator.papers.base import Reproduction
from emunode.errors import ScenarioError

REPRODUCTIONS: Mapping[str, Reproduction] = {
    reproduction.name: reproduction
    for reproduction in (
        tseng_sheu.REPRODUCTION,
        fragopoulou_akl_1993.REPRODUCTION,
        fragopoulou_akl_1996.REPRODUCTION,
        star_against_hypercube.REPRODUCTION,
        johnsson_ho_graphs.REPRODUCTION,
        johnsson_ho_figures.REPRODUCTION,
        johnsson_ho_broadcast.REPRODUCTION,
        johnsson_ho_scatter.REPRODUCTION,
        johnsson_ho_allgather.REPRODUCTION,
        johnsson_ho_alltoall.REPRODUCTION,
        johnsson_ho_summary.REPRODUCTION,
        johnsson_ho_ipsc.REPRODUCTION,
        timed_speedup.REPRODUCTION,
        hussain_network.REPRODUCTION,
        hussain_figures.REPRODUCTION,
        hussain.REPRODUCTION,
        hussain_allgather.REPRODUCTION,
    )
}  # fmt: skip
"""By name, in the order in which `--all` goes through them."""


def find_reproduction(name: str) -> Reproduction:
    """The reproduction of this name; ScenarioError (field `reproduce`) lists those there are."""
    if name in REPRODUCTIONS:
        return REPRODUCTIONS[name]
    near = get_close_matches(name, REPRODUCTIONS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ScenarioError("reproduce", name, f"{hint}there are: {', '.join(REPRODUCTIONS)}")

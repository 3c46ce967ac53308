"""Which reproductions there are: a literal map, one line a reproduction."""

from collections.abc import Mapping
from difflib import get_close_matches

from coordinator.papers.base import Reproduction
from coordinator.papers.fragopoulou_akl import paper_1996 as fragopoulou_akl_1996
from coordinator.papers.fragopoulou_akl import report_1993 as fragopoulou_akl_1993
from coordinator.papers.fragopoulou_akl import star_against_hypercube
from coordinator.papers.hussain import allgather as hussain_allgather
from coordinator.papers.hussain import broadcast as hussain
from coordinator.papers.hussain import figures as hussain_figures
from coordinator.papers.hussain import network as hussain_network
from coordinator.papers.johnsson_ho import allgather as johnsson_ho_allgather
from coordinator.papers.johnsson_ho import alltoall as johnsson_ho_alltoall
from coordinator.papers.johnsson_ho import broadcast as johnsson_ho_broadcast
from coordinator.papers.johnsson_ho import figures as johnsson_ho_figures
from coordinator.papers.johnsson_ho import graphs as johnsson_ho_graphs
from coordinator.papers.johnsson_ho import ipsc as johnsson_ho_ipsc
from coordinator.papers.johnsson_ho import scatter as johnsson_ho_scatter
from coordinator.papers.johnsson_ho import summary as johnsson_ho_summary
from coordinator.papers.johnsson_ho import timed_speedup
from coordinator.papers.tseng_sheu import tables as tseng_sheu
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

"""The registered reproductions: one line per paper; each paper lists its own."""

from difflib import get_close_matches

from coordinator.annexes.papers import additions, any_network, fragopoulou_akl, hussain, johnsson_ho, tseng_sheu
from coordinator.annexes.papers.base import REPRODUCTIONS as REPRODUCTIONS  # noqa: PLC0414  # complete once this is imported
from coordinator.annexes.papers.base import Reproduction
from emunode.errors import ScenarioError

PAPERS = (
    tseng_sheu,
    fragopoulou_akl,
    johnsson_ho,
    hussain,
    any_network,
    additions,
)  # fmt: skip
for _paper in PAPERS:
    for _reproduction in _paper.REPRODUCTIONS:
        REPRODUCTIONS.add(_reproduction)


def find_reproduction(name: str) -> Reproduction:
    """Return the reproduction of this name; otherwise raises ScenarioError (field `reproduce`) with the known names."""
    if name in REPRODUCTIONS:
        return REPRODUCTIONS[name]
    near = get_close_matches(name, REPRODUCTIONS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ScenarioError("reproduce", name, f"{hint}known reproductions: {', '.join(REPRODUCTIONS)}")

"""The registered reproductions: one line per paper; each paper lists its own."""

from coordinator.annexes.papers import additions, any_network, fragopoulou_akl, hussain, johnsson_ho, tseng_sheu
from coordinator.annexes.papers.base import REPRODUCTIONS as REPRODUCTIONS  # noqa: PLC0414  # complete once this is imported
from coordinator.annexes.papers.base import Reproduction
from emunode.errors import ScenarioError, did_you_mean

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
    known = f"known reproductions: {', '.join(REPRODUCTIONS)}"
    raise ScenarioError("reproduce", name, did_you_mean(name, REPRODUCTIONS) + known)

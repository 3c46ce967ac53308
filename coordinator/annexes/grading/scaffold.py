"""Files to start from: an algorithm or a network that runs as it stands."""

import re
from pathlib import Path
from string import Template
from typing import Final

from emunode.algorithms.base import ANY_FAMILY
from emunode.algorithms.registry import algorithms
from emunode.errors import ScenarioError
from emunode.model import Collective
from emunode.topologies.base import FAMILIES

NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST_NAME: Final = 40
FOLDER: Final = Path(__file__).with_name("scaffolds")
OTHERS: Final = "[rank for rank in self.topology.data_ranks if rank != origin]"
TARGETS: Final = {
    Collective.BROADCAST: "(ALL_RANKS,)",
    Collective.ALLGATHER: "(ALL_RANKS,)",
    Collective.SCATTER: OTHERS,
    Collective.ALLTOALL: OTHERS,
    Collective.GATHER: "(self.spec.source,) if origin != self.spec.source else ()",
}
"""For whom a rank has messages. A reduce needs a tree, because contributions are combined."""


def algorithm_text(name: str, family: str, collective: Collective, file: str) -> str:
    """Return the text of an algorithm; ScenarioError for a name that is taken or malformed."""
    _check_name(name)
    family = family.partition(":")[0].lower()
    if family not in (*FAMILIES, ANY_FAMILY):
        raise ScenarioError("topology", family, f"expected any, or one of {', '.join(FAMILIES)}")
    if collective not in (*TARGETS, Collective.REDUCE):
        raise ScenarioError("collective", str(collective), f"expected reduce, {', '.join(TARGETS)}")
    for taken in FAMILIES if family == ANY_FAMILY else (family,):
        if name in algorithms(taken, collective):
            raise ScenarioError("name", name, f"there is an algorithm of this name for {collective} on {taken}")
    values = {"family": family, "collective": str(collective), "collective_name": collective.name}
    if collective is Collective.REDUCE:
        return _filled("tree", name, file, **values)
    text = _filled("flooding", name, file, targets=TARGETS[collective], **values)
    return text if "ALL_RANKS," in TARGETS[collective] else text.replace("import ALL_RANKS, ", "import ")


def network_text(name: str, file: str) -> str:
    """Return the text of a family of networks; ScenarioError for a name that is taken or malformed."""
    _check_name(name)
    if name in (*FAMILIES, ANY_FAMILY):
        raise ScenarioError("name", name, "there is a family of this name")
    return _filled("network", name, file, family=name)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise ScenarioError("name", name, f"expected up to {LONGEST_NAME} characters a-z, 0-9 and -, such as my-tree")


def _filled(template: str, name: str, file: str, **values: str) -> str:
    class_name = "".join(word.capitalize() for word in name.split("-"))
    text = Template((FOLDER / f"{template}.txt").read_text(encoding="utf-8"))
    return text.substitute(name=name, class_name=class_name, file=file, **values)

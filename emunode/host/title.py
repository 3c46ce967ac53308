"""The title of a host process: it shows the nodes of the process in `ps` and `top`."""

import os
from typing import Final

from emunode.host.placement import placement_of
from emunode.net.protocol import HostConfig
from emunode.runtime import call, has
from emunode.topologies.base import Topology

try:
    from setproctitle import setproctitle
except ImportError:  # images of hosts do without it
    setproctitle = None  # type: ignore[assignment]

PR_SET_NAME: Final = 15
KEEP_ENVIRONMENT: Final = "SPT_NOENV"
"""If it is set when the library is first called, a title takes the place of the command line, not of the environment too."""


def title_of(config: HostConfig, topology: Topology) -> str:
    """Return a title such as "emunode: host 1 of 2, nodes 3124 to 4321 of star:4"."""
    ranks = placement_of(config, topology.order).ranks(config.host)
    first, last = topology.label(ranks[0]), topology.label(ranks[-1])
    between = "to" if isinstance(ranks, range) else ".."
    nodes = f"node {first}" if len(ranks) == 1 else f"nodes {first} {between} {last}"
    return f"emunode: host {config.host} of {config.hosts}, {nodes} of {topology.name}"


def show_title(config: HostConfig, topology: Topology) -> None:
    """Name this process after its host: its command line where the library exists, and its short name."""
    if setproctitle is not None:
        given = os.environ.get(KEEP_ENVIRONMENT)
        os.environ[KEEP_ENVIRONMENT] = given or "1"
        setproctitle(title_of(config, topology))
        if given is None:
            # Programs that this host starts must not inherit a setting that the user did not make.
            del os.environ[KEEP_ENVIRONMENT]
    # The library takes the first letters of the title, and may cut off the number of the host.
    if has("prctl"):
        call("prctl", PR_SET_NAME, f"emunode {config.host}".encode(), 0, 0, 0)

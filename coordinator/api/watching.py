"""A run that is steered from a page in a browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from coordinator.api.networks import BaseNetwork, Network, Source, topology_of
from coordinator.api.option_types import Options
from coordinator.api.options import FaultTexts, require_number, scenario_of
from coordinator.api.runs import Run, run_plan
from coordinator.live.opening import WATCH_SECONDS, open_listener, watched_plan
from coordinator.live.watch import Watch
from coordinator.planning.feasibility import require_possible
from emunode.errors import ScenarioError
from emunode.terminal import say

LONGEST_SECONDS = 86_400


def watch(
    network: "BaseNetwork | Source",
    collective: str,
    algorithm: str,
    *,
    faults: FaultTexts = (),
    out: Path | str | None = None,
    timeout: float = WATCH_SECONDS,
    port: int = 0,
    show: Callable[[str], object] | None = None,
    **options: Unpack[Options],
) -> Run:
    """Run a collective that is steered from a page in a browser, and return the run when it is over and no page is open.

    `show` is called with the address of the page, including the token of the run; by default it is printed on standard
    error. The run begins paused. A pause of more than `timeout` seconds without a request ends it, undecided. `port` is
    the port of the page on the loopback, 0 any free port. The scenario of the run has every fault that was added on the
    page. If the page asks for branches, or for the run again, the last run is returned; `out` with `-branch-1` and so on
    are the directories of the others. After `timeout` seconds without a request the page ends, too.

    Other arguments and errors are as of `Network.run`; RunError also if the port is in use, and ScenarioError (field
    `watch`) for the timed clock, for nodes that know all faults, and for more than 60,000 nodes.

    >>> import coordinator as tb
    >>> run = tb.watch("star:4", "broadcast", "greedy-tree", timeout=1, show=lambda address: None)
    >>> run.undecided
    'it was paused before step 1 for more than 1 s without a request'
    """
    require_number("timeout", timeout, (int, float))
    if not 0 < timeout <= LONGEST_SECONDS:
        raise ScenarioError("timeout", timeout, f"expected more than 0 and at most {LONGEST_SECONDS} seconds")
    require_number("port", port)
    if not 0 <= port < 65536:
        raise ScenarioError("port", port, "expected a port from 1 to 65535, or 0 for any free one")
    named = network if isinstance(network, BaseNetwork) else Network(topology_of(network))
    values = {**named.values, "collective": collective, "algorithm": algorithm}
    plan = watched_plan(scenario_of(values, faults, options))
    require_possible(plan)
    with Watch(plan, open_listener(port), timeout=timeout) as page:
        (show or _print)(page.url)
        return run_plan(plan, None if out is None else Path(out), False, page)


def _print(url: str) -> None:
    say(f"watch the run at {url}", err=True, flush=True)

"""Where the evaluator is exact, in words, and what it takes; `coordinator plan` says both without importing numpy."""

from collections.abc import Iterable
from typing import Final

from coordinator.dependence import MOST_HOPS
from coordinator.evaluation.forging import FORGERS
from coordinator.planning.plan import Plan
from emunode.algorithms.allreduce import Allreduce
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Value
from emunode.algorithms.classical.doubling import RecursiveDoubling
from emunode.algorithms.losses import Outages
from emunode.faults.byzantine import Silent
from emunode.faults.kinds import Crash, Down, Fault, Hang, Loss, Up
from emunode.model import FOLDING, FaultKnowledge

HOP_BYTES: Final = 350
"""Memory per hop of a schedule and its groups while they are made. Measured: 170 to 330, of which 130 to 210 remain."""
PASS_BYTES: Final = 2**26
"""Memory of the rows of one pass, about; trials beyond it wait for the next pass."""
EXACT_KINDS: Final[frozenset[type[Fault]]] = frozenset({Crash, Hang, Silent, Down, Loss, *FORGERS})
"""Kinds of faults that the evaluator follows."""
LEAST_BYTES: Final = 8
"""Bytes of the shortest segment whose wrong contents are taken to differ from the right one: they agree once in 2^64."""


def why_inexact(plan: Plan, kinds: Iterable[type[Fault]] = (), first: int = 1) -> str | None:
    """Why the evaluator is not exact for a plan, its faults and further ones of these kinds from step `first` on, or None.

    The answer needs no run; `evaluator_of` may still find that the hops of a schedule do not determine one another.
    """
    struck = [*kinds, *(type(fault) for fault in plan.faults)]
    return why_untraceable(plan) or _of_faults(plan, struck, first)


def why_untraceable(plan: Plan) -> str | None:
    """Why the schedule without faults does not tell what happens under faults, whatever these are, or None."""
    return _of_scenario(plan) or _of_algorithm(plan.algorithm)


def _of_scenario(plan: Plan) -> str | None:
    if plan.scenario.clock != "steps":
        return "under the timed clock packets have no fixed step"
    if plan.spec.knowledge is not FaultKnowledge.NONE or plan.scenario.fault_knowledge is not FaultKnowledge.NONE:
        return "nodes that know faults may send something else"
    if plan.spec.reliable is not None:
        return "reliable links send again what was lost"
    if plan.spec.repair is not None:
        return "nodes repair what was lost"
    return None


def _of_algorithm(algorithm: Algorithm) -> str | None:
    if not algorithm.keeps_time:
        return f"{algorithm.name} decides during the run what it sends, and when"
    if not algorithm.independent_sends:
        return f"in {algorithm.name} a node waits for messages that it does not pass on"
    if not algorithm.copies_keep_trees:
        return f"in {algorithm.name} copies change their tree"
    known = isinstance(algorithm, RecursiveDoubling | Allreduce) or algorithm.losses(Outages()) is not None
    return None if known else f"{algorithm.name} does not say what its schedule loses"


def _of_faults(plan: Plan, kinds: Iterable[type[Fault]], first: int) -> str | None:
    struck = set(kinds)
    others = sorted(kind.form.partition(":")[0] for kind in struck - EXACT_KINDS - {Up})
    if others:
        return f"{', '.join(others)} is followed by messages only"
    last = plan.algorithm.final_step
    outages = struck <= {Crash, Hang, Down, Up}
    if not outages and last is not None and any(step > last for step in (first, *(f.step for f in plan.faults))):
        return f"a fault begins after the last step, {last}"
    shortest = plan.spec.least_message_bytes // plan.algorithm.segments_per_message
    if shortest < LEAST_BYTES and (plan.spec.collective in FOLDING or struck & set(FORGERS)):
        return (
            f"in segments of {shortest} bytes a wrong content may be right by chance; at least {LEAST_BYTES} are needed"
        )
    return None


def evaluator_bytes(plan: Plan) -> int | None:
    """The memory that evaluating fault sets for a plan takes, about; None where that is not exact or not predicted.

    The schedule and a pass over it; a pass is bounded, and other trials wait.
    """
    hops = [claim.predicted for claim in plan.algorithm.claims() if claim.name == "segments" and claim.relation != ">="]
    # The number first: to find out whether the evaluator is exact may take as long as a run.
    if not hops or min(map(_whole, hops)) > MOST_HOPS or why_inexact(plan) is not None:
        return None
    return PASS_BYTES + HOP_BYTES * min(map(_whole, hops))


def _whole(predicted: Value) -> int:
    assert not isinstance(predicted, tuple)
    return int(predicted)

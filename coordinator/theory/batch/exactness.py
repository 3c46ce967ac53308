"""Where the engine is exact, in words, and its memory; `coordinator plan` states both without importing numpy."""

from collections.abc import Iterable, Sequence
from typing import Final

from coordinator.features.registry import why_unpredictable
from coordinator.planning.plan import Plan
from coordinator.theory.dependence.size import TRACE_HOPS, stated_hops
from emunode.algorithms.base import Algorithm, Dependence, shortest_segment_bytes
from emunode.faults.effects import Alters, Choice, Effect, Ends, Interval, Loses, Stops
from emunode.faults.kinds import FOREVER, Fault, LinkFault, kind_of, stated, stated_effects, states_effects
from emunode.model import FOLDING, FaultKnowledge

HOP_BYTES: Final = 350
"""Memory per hop of a schedule and its groups while they are made. Measured: 170 to 330; of these 130 to 210 remain."""
PASS_BYTES: Final = 2**26
"""Memory of the rows of one pass, about; trials beyond it wait for the next pass."""
LEAST_BYTES: Final = 8
"""Bytes of the shortest segment whose wrong contents count as different from the right one: they agree once in 2^64."""


def why_inexact(plan: Plan, further: Iterable[Fault] = ()) -> str | None:
    """Return why the batch engine is not exact for a plan; None if it is.

    The faults of the plan and `further` faults are taken into account, wherever they strike. No run is needed for the
    answer. `batch_engine_of` may still find that the hops of a schedule do not determine one another.
    """
    return why_untraceable(plan) or _of_faults(plan, (*further, *plan.faults))


def why_untraceable(plan: Plan) -> str | None:
    """Return why the fault-free schedule does not decide histories under faults, or None."""
    return _of_scenario(plan) or _of_algorithm(plan.algorithm)


def _of_scenario(plan: Plan) -> str | None:
    # The schedule is traced in lock-step, so it says nothing about other clocks.
    if plan.scenario.clock != "steps":
        return "under the timed clock packets have no fixed step"
    if plan.spec.knowledge is not FaultKnowledge.NONE or plan.scenario.fault_knowledge is not FaultKnowledge.NONE:
        return "nodes that know faults may send something else"
    return why_unpredictable(plan.spec)


def _of_algorithm(algorithm: Algorithm) -> str | None:
    # Hops depend on each other in the traced way only if every send is fixed before the run.
    if not algorithm.timing.on_schedule:
        return f"{algorithm.name} decides during the run what it sends, and when"
    if algorithm.dependence in (Dependence.WAITING, Dependence.LISTED):
        return f"in {algorithm.name} a node waits for messages that it does not pass on"
    if not algorithm.traits.copies_keep_trees:
        return f"in {algorithm.name} copies change their tree"
    known = algorithm.dependence is Dependence.FIXED
    return None if known else f"{algorithm.name} does not say what its schedule loses"


def _of_faults(plan: Plan, faults: Sequence[Fault]) -> str | None:
    # Refused by the name of the kind, so that no kind is silently evaluated without one of its effects.
    others = {kind_of(fault): states_effects(type(fault)) for fault in faults if not _is_followed(fault)}
    if others:
        mute = [kind for kind in sorted(others) if not others[kind]]
        hint = f"; effects() is not defined by {', '.join(mute)}" if mute else ""
        return f"{', '.join(sorted(others))} is followed by messages only{hint}"
    effects = {type(effect) for fault in faults for effect in stated(fault)}
    last = plan.algorithm.final_step
    if not effects <= {Stops, Ends} and last is not None and any(fault.step > last for fault in faults):
        return f"a fault begins after the last step, {last}"
    shortest = shortest_segment_bytes(plan.algorithm)
    if shortest < LEAST_BYTES and (plan.spec.collective in FOLDING or Alters in effects):
        return (
            f"in segments of {shortest} bytes a wrong content may be right by chance; at least {LEAST_BYTES} are needed"
        )
    return None


def _is_followed(fault: Fault) -> bool:
    """Report whether the engine follows every effect of a fault."""
    effects, on_link = stated_effects(fault), isinstance(fault, LinkFault)
    # A node with a fault counts as faulty, even if the fault has no effect.
    return (bool(effects) or (on_link and effects is not None)) and all(
        place == fault.place and _is_exact(effect, interval, on_link=on_link)
        for place, interval, effect in effects or ()
    )


def _is_exact(effect: Effect, interval: Interval, *, on_link: bool) -> bool:
    match effect:
        case Stops(forgets=forgets):
            # A rank that returns without its state would not pass on segments that it received before.
            return not forgets or interval.end > FOREVER
        case Ends():
            return on_link
        case Loses(choice=Choice.PACKET, packet=None) if on_link:
            return True
        case Loses(probability=probability, packet=None, choice=choice):
            # Colluding nodes alter the copies that win a vote, and a vote depends on all other copies.
            return probability >= 1 and choice is not Choice.VOTE
        case Alters(probability=probability, choice=choice):
            # Bytes that a link damages differ from one link to the next, or agree by chance.
            return not on_link and probability >= 1 and choice is not Choice.VOTE
        case _:
            return False


def evaluator_bytes(plan: Plan) -> int | None:
    """Estimate the memory for evaluating fault sets, in bytes.

    It holds the schedule and one pass over it: a pass is bounded, and other trials wait. None if the engine is not
    exact or the size is unknown.
    """
    hops = stated_hops(plan.algorithm)
    # The number first, because a schedule that is too long needs no other reason.
    if hops is None or hops > TRACE_HOPS or why_inexact(plan) is not None:
        return None
    return PASS_BYTES + HOP_BYTES * hops

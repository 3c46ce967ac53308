"""`coordinator plan`."""

from collections.abc import Mapping, Sequence
from time import process_time
from typing import Any

from coordinator.api.console import say_wrapped
from coordinator.cli import render
from coordinator.cli.given import scenario_from
from coordinator.cli.options import ScenarioFlags, ScenarioWords
from coordinator.cli.output import JsonFlag, as_command
from coordinator.planning.claims import fault_free_claims, predictions
from coordinator.planning.feasibility import describe_needs, warning, why_impossible
from coordinator.planning.plan import Plan, make_plan
from coordinator.reports.numbers import describe_dropped
from coordinator.scenario.command import describe
from coordinator.theory.batch.exactness import evaluator_bytes
from emunode.algorithms.base import Need
from emunode.terminal import print_json, say

LONGEST = 40
"""Most characters of an amount in words: a placement from a file names the host of each node."""


def print_plan(words: Sequence[str], flags: Any, as_json: bool) -> int:
    """Print the plan of the scenario in words and flags, and return the exit status."""
    began = process_time()
    made = make_plan(scenario_from(words, flags), estimate=True)
    needs, reason = describe_needs(made), why_impossible(made)
    if Need.TABLE in made.algorithm.needs and reason is None:
        # Measured, network included: every process computes the same tables, or forks after they are computed.
        made.algorithm.compute_tables()
        needs["table_seconds"] = round(process_time() - began, 3)
    # To find out whether the engine is exact may take as long as a run.
    needs["evaluator_bytes"] = evaluator_bytes(made) if reason is None else None
    sifted = fault_free_claims(made)
    claims, dropped = predictions(sifted.kept), [each.record() for each in sifted.dropped]
    if as_json:
        found = {"claims": claims, "dropped_claims": dropped}
        print_json({**needs, **found, "possible": reason is None, "impossible_because": reason})
    else:
        show_plan(made, needs, claims)
        for line in describe_dropped(dropped, claims):
            say(line)
    if reason is not None:
        say_wrapped(f"coordinator: {reason}", err=True)
    elif large := warning(made):
        say_wrapped(f"warning: {large}", err=True)
    return 0 if reason is None else 4


def show_plan(plan: Plan, needs: Mapping[str, object], claims: Sequence[Mapping[str, object]]) -> None:
    """Print the needs of a run, and the predictions of theory."""
    spec = plan.spec
    settings = describe(plan.scenario.model_dump())
    render.console().print(
        f"[bold]{plan.topology.title}[/bold]: {spec.collective} by {settings}, driver {plan.scenario.driver}",
        wrap=True,
    )
    rows = [
        {"needs": name.removesuffix("_bytes").replace("_", " "), "amount": _amount(name, needs[name])} for name in needs
    ]
    render.show_rows("", rows)
    render.show_claims(claims)


def _amount(name: str, value: object) -> object:
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:LONGEST]}.."
    if name.endswith("_seconds") and isinstance(value, float):
        return f"{value:.2f} s"
    return f"{value / 2**20:,.0f} MiB" if name.endswith("_bytes") and isinstance(value, int) else value


@as_command
def plan(scenario: ScenarioWords = (), *, flags: ScenarioFlags = None, json: JsonFlag = False) -> int:
    """Print what a scenario needs and what theory predicts, without running it.

    If this machine cannot run the scenario, the reason follows the plan and the exit status is 4.

    Examples:
      coordinator plan star:9 broadcast edt
      coordinator plan scenario.toml --driver memory --json
    """
    return print_plan(scenario, flags, json)

"""`coordinator certify --every-order`, and `coordinator run --order`."""

import shlex
from pathlib import Path
from typing import Any

from coordinator.annexes.orders.every_order import run_every_order
from coordinator.annexes.orders.result import EveryOrder
from coordinator.annexes.orders.shared_state import NOT_WATCHED
from coordinator.annexes.orders.stored import read_order, write_order
from coordinator.api.console import on_stderr
from coordinator.cli import render
from coordinator.cli.given import texts_of
from coordinator.scenario.command import run_command
from coordinator.scenario.model import Scenario
from coordinator.scenario.named import name_again, require_same
from coordinator.scenario.plugins import load_plugins, plugin_flags
from coordinator.scenario.reach import FILE
from emunode.errors import ScenarioError
from emunode.terminal import plural, print_json, say

SHOWN_COUNTS = 40
"""Most rows of numbers of orders; `--json` has all."""


def search_orders(scenario: Scenario, executions: int | None, out: Path | None, *, as_json: bool) -> int:
    """Run every order of a scenario, print the result, and write the order that deviates; return the exit status."""
    with on_stderr("certify", "nothing is kept; the same command begins again") as progress:
        found = run_every_order(scenario, executions, progress)
    path = out or Path("runs", "counterexamples", f"{found.plan.name}-order.json")
    repeat = []
    if found.deviation is not None:
        written = write_order(found, scenario, path)
        plugins = plugin_flags(scenario.plugin)
        # Where no order of one host is to blame, memory and hosts differ in every run.
        network = f" --topology {shlex.quote(scenario.topology)}" if scenario.topology.startswith(FILE) else ""
        repeat = [f"coordinator run --order {path}{network}{plugins}"] if written else _both(scenario)
    if as_json:
        print_json({**found.record(), "repeat": repeat})
    else:
        show_orders(found, repeat)
    return 130 if found.interrupted else found.exit_status


def _both(scenario: Scenario) -> list[str]:
    ranks = 1 if scenario.ranks_per_host == "auto" else scenario.ranks_per_host
    hosts = scenario.on_driver("local").model_copy(update={"ranks_per_host": ranks})
    return [run_command(each) for each in (scenario.on_driver("memory"), hosts)]


def run_order(path: Path, flags: Any, *, alone: bool, as_json: bool) -> int:
    """Run the order in a file beside the plain one, and print where they differ; return the exit status.

    `flags` repeat what the file may not name alone. ScenarioError (field `order`) for other flags, and if it is not `alone`.
    """
    allowed = "the file has the scenario; give only --json beside it, and what it may not name alone, such as --plugin"
    refusal = ScenarioError("order", str(path), allowed)
    if not alone:
        raise refusal
    given = texts_of(flags)
    load_plugins(given.pop("plugin", ()))
    named = name_again(given, refusal)
    scenario, order = read_order(path)
    require_same(named, dict(scenario))
    found = run_every_order(scenario, None, lambda *_: None, order)
    if as_json:
        print_json(found.record())
        return found.exit_status
    _show_heading(found, "one order of events beside the plain one")
    found_words = found.deviation.words() if found.deviation else "the same packets, rows and counts in both orders"
    say(found_words)
    render.console().print(f"verdict: {render.verdict_text(found.verdict)}")
    return found.exit_status


def show_orders(found: EveryOrder, repeat: list[str]) -> None:
    """Print the numbers of orders, the deviation with the command that repeats it, and the verdict."""
    out, counts = render.console(), list(found.counts())
    _show_heading(found, "every order of arrivals")
    render.show_rows("", counts[:SHOWN_COUNTS])
    if len(counts) > SHOWN_COUNTS:
        say(f"and {plural(len(counts) - SHOWN_COUNTS, 'row')} more: --json has all")
    if found.deviation is not None:
        say(f"shortest deviation: {found.deviation.words()}")
    for line in repeat:
        say(f"  repeat it with: {line}")
    if found.plan.scenario.plugin:
        further = f", and {', '.join(found.not_watched)}" if found.not_watched else ""
        say(f"not watched in plug-ins: {NOT_WATCHED}{further}")
    unit = "time" if found.timed else "step"
    counted = f"{plural(found.executions, 'execution')}, {plural(found.steps, unit)}"
    ended = f"; the bound of {found.most:,} was reached" if found.exceeded else ""
    ended += f"; interrupted, with all orders of {plural(found.steps, unit)} run" if found.interrupted else ""
    out.print(f"verdict: {render.verdict_text(found.verdict)}   {counted}{ended}")


def _show_heading(found: EveryOrder, what: str) -> None:
    plan = found.plan
    render.console().print(
        f"[bold]{plan.topology.title}[/bold]: {plan.spec.collective} by {plan.spec.algorithm}, {what}"
    )

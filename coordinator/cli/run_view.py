"""A run on a terminal while it runs: a few lines that change in place and disappear at its end."""

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coordinator.api.console import PlainConsole
from coordinator.execution.observer import RunObserver
from coordinator.reports.numbers import abbreviate
from coordinator.scenario.command import describe
from emunode.model import HopOutcome
from emunode.terminal import plural

REFRESHES_PER_SECOND: Final = 4
RATE_SECONDS: Final = 1.0
"""Rates are averages over at least this time."""
MOST_HOSTS: Final = 8
"""Hosts with a line of their own."""
BAR: Final = 24


@contextlib.contextmanager
def run_view(observer: RunObserver) -> Iterator[None]:
    """Show the run on standard error, a terminal, within the context."""
    view = RunView(observer)
    console = PlainConsole(stderr=True)
    with Live(
        get_renderable=view.render, console=console, refresh_per_second=REFRESHES_PER_SECOND, transient=True,
        redirect_stdout=False, redirect_stderr=False,
    ):  # fmt: skip
        yield


class RunView:
    """The lines of one run. `render` is called a few times per second."""

    def __init__(self, observer: RunObserver) -> None:
        self._observer = observer
        self._at = time.monotonic()
        self._counts = self._arrived()
        self._rates = [0.0] * len(self._counts)

    def render(self) -> RenderableType:
        """Return the state of the run now, at most MOST_HOSTS + 4 lines."""
        self._measure()
        seen, plan = self._observer, self._observer.plan
        head = Table.grid(expand=True)
        head.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
        head.add_column(justify="right", no_wrap=True)
        title = f"{plan.topology.title}: {plan.spec.collective} by {describe(plan.scenario.model_dump())}"
        head.add_row(Text(title, style="bold"), Text(f"  {seen.seconds:.0f} s"))
        return Group(head, *(Text(line, overflow="ellipsis", no_wrap=True) for line in self._lines()), *self._hosts())

    def _lines(self) -> Iterator[str]:
        seen, counters = self._observer, self._observer.counters
        if seen.phase == "setup":
            yield "setting up"
        elif seen.total:
            yield f"{seen.elapsed:,} of {seen.total:,} ms of the timetable"
        else:
            outcomes = counters.outcomes
            parts = [
                f"step {counters.steps:,}",
                plural(counters.packets, "packet"),
                f"{plural(outcomes[HopOutcome.FIRST], 'segment')} delivered",
                *(
                    f"{outcomes[kind]:,} {kind.name.lower()}"
                    for kind in (HopOutcome.LOST, HopOutcome.CORRUPT)
                    if outcomes[kind]
                ),
            ]
            yield ", ".join(parts)
        faults = f"{seen.faults:,} of {plural(len(seen.plan.faults), 'fault')} in force" if seen.plan.faults else ""
        hosts = (
            f"{seen.hosts:,} of {plural(seen.plan.hosts, 'host')}, {plural(seen.links, 'link')}"
            if seen.plan.hosts
            else ""
        )
        if hosts or faults:
            yield ", ".join(filter(None, (hosts, faults)))

    def _hosts(self) -> Iterator[RenderableType]:
        """Yield a line for each host with its rate, the busiest first if there are many; in memory, one line."""
        if self._observer.phase != "running" or self._observer.total:
            return
        rates = self._rates
        most = max(rates, default=0.0)
        shown = sorted(range(len(rates)), key=lambda at: -rates[at])[:MOST_HOSTS]
        for at in sorted(shown):
            name = f"host {at:>5}" if self._observer.plan.hosts else "in memory"
            bar = "█" * round(BAR * rates[at] / most) if most else ""
            yield Text(f"{name:<12}{bar:<{BAR}} {abbreviate(round(rates[at])):>9} segments/s", no_wrap=True)
        if len(shown) < len(rates):
            yield Text(f"{'all hosts':<12}{'':<{BAR}} {abbreviate(round(sum(rates))):>9} segments/s", no_wrap=True)

    def _arrived(self) -> list[int]:
        counters = self._observer.counters
        return counters.received_by_host.tolist() if self._observer.plan.hosts else [counters.segments]

    def _measure(self) -> None:
        now = time.monotonic()
        if now - self._at >= RATE_SECONDS:
            counts = self._arrived()
            self._rates = [(new - old) / (now - self._at) for new, old in zip(counts, self._counts, strict=True)]
            self._at, self._counts = now, counts

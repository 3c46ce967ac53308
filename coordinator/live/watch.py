"""A watched run: its page, and the steps and faults that follow from the requests of the page.

with Watch(plan, open_listener(), timeout=1800) as watch:
    print(watch.url)
    result = run(plan, DirectorySink(out), progress, steering=watch)
    while origin := watch.concluded(result):  # a page wants a branch, or the run again
        result = run(watch.plan, DirectorySink(other), progress, steering=watch, accept=origin.accept)
"""

import contextlib
import secrets
import socket
import threading
import time
from types import TracebackType
from typing import Final, Self

import trio

from coordinator.execution.branch import Origin
from coordinator.execution.sinks import FinishedRun, RunResult
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.live.frames import Frames
from coordinator.live.loop_thread import LoopThread
from coordinator.live.opening import ADDRESS, WATCH_SECONDS
from coordinator.live.server import FLUSH_SECONDS, Server, WatchedRun
from coordinator.live.session import WatchState
from coordinator.networks.base import StepResult, UnreadArrivals
from coordinator.planning.plan import Plan
from coordinator.reports.numbers import verdict_note
from coordinator.results.reasons import unjudged_word
from coordinator.scenario.command import run_command
from emunode.model import Step

MOST_RUNS: Final = 16
"""Most runs that one page shows: a run and its branches."""
LOOK_SECONDS: Final = 0.2
"""Time between two looks whether a page is still open, and whether to stop."""


class Watch:
    """The page of a run and its branches; it steers the run (`coordinator.execution.drive.Steering`).

    The run pauses after step `until`, by default before step 1. It ends undecided if it is paused for more than `timeout`
    seconds without a request; so does the page after the run. The page is served at `listener`; the listener is closed on
    leaving the context.
    """

    def __init__(self, plan: Plan, listener: socket.socket, *, timeout: float = WATCH_SECONDS, until: Step = 0) -> None:
        self.waited_seconds = 0.0
        self._timeout = timeout
        self._first = plan, until
        self._runs = [WatchedRun(WatchState(plan, until), Frames(plan))]
        self._token, self._ticket = secrets.token_urlsafe(32), f"once-{secrets.token_urlsafe(32)}"
        self._listener = listener
        self._port: int = self._listener.getsockname()[1]
        self._server = Server(self._runs, self._listener, self._token, self._ticket, self._wake_run)
        self._thread = LoopThread("watch", self._server.serve, self._on_failure)
        self._abandoned = False
        """Whether the run waited for a request in vain."""
        self._asked = threading.Event()
        self._run_token: trio.lowlevel.TrioToken | None = None
        self._requested: trio.Event | None = None
        self._began = 0.0
        """The time when the last step was to begin."""
        self._last_step: Step = 0

    @property
    def _session(self) -> WatchState:
        return self._runs[-1].session

    @property
    def _frames(self) -> Frames:
        return self._runs[-1].frames

    @property
    def url(self) -> str:
        """The address of the page. A browser does not send the part after #, the token, to any server."""
        return f"http://{ADDRESS}:{self._port}/#{self._token}"

    @property
    def browser_url(self) -> str:
        """The address for the command line of a browser, which all users can read: it is good for one page."""
        return f"http://{ADDRESS}:{self._port}/#{self._ticket}"

    # --- the server's thread ---------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runs[-1].result is None:
            self.end()
            self._runs[-1].result = {"verdict": None, "because": str(error) or type(error).__name__}
        self._thread.call(self._server.finish)
        self._thread.join(2 * FLUSH_SECONDS)
        self._listener.close()

    def _on_failure(self, error: BaseException) -> None:
        self._session.stop(f"the page of the run failed: {type(error).__name__}: {error}")
        self._wake_run()

    @property
    def is_watched(self) -> bool:
        """Whether a page is open."""
        return self._server.is_watched

    def concluded(self, result: FinishedRun) -> Origin | None:
        """Tell watchers the verdict; return the run up to the step where a page wants a branch, or None.

        This waits for a page to ask for a branch, as long as one is open, for `timeout` seconds since the last request and
        until a signal. With a branch, run `plan`, now the plan of the branch, and call `concluded` again.
        """
        summary = result.summary
        self._runs[-1].result = {
            "verdict": str(result.verdict),
            "because": verdict_note(summary) or None,
            "unjudged": unjudged_word(summary),
            "hash": summary["journal_hash"],
            "claims": summary["claims"],
            "steps": summary["steps"],
            "command": run_command(result.plan.scenario),
            "path": str(result.path) if isinstance(result, RunResult) else None,
        }
        self._thread.call(self._server.changed)
        if self._abandoned or result.execution.interrupted:
            return None
        step, again = self._await_branch(), self._session.again
        if step is None:
            return None
        origin = Origin.of(result, min(step, result.execution.steps))
        plan, until = self._first if again else (result.plan.with_faults(origin.faults), origin.step)
        self.waited_seconds, self._began, self._last_step = 0.0, 0.0, 0
        state = WatchState(plan, until, self._session.status().version + 1, may_branch=len(self._runs) < MOST_RUNS - 1)
        self._runs.append(WatchedRun(state, Frames(plan), origin.step, again))
        self._thread.call(self._server.changed)
        return origin

    def _await_branch(self) -> Step | None:
        """Return the step of the branch that a page wants, now or later; None once no page can want one any more."""
        end = time.monotonic() + self._timeout
        with InterruptGuard() as guard:
            while (step := self._session.branch) is None:
                over = self._session.closed or not self.is_watched or time.monotonic() > end
                if over or guard.requested:
                    return None
                if self._asked.wait(LOOK_SECONDS):
                    self._asked.clear()
                    end = time.monotonic() + self._timeout
        return step

    # --- steering --------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """The plan with the faults added so far."""
        return self._session.plan

    async def before_step(self, step: Step) -> str | None:
        """Wait until a page lets `step` begin; return the reason if the run is to end instead."""
        began = time.monotonic()
        self._run_token = trio.lowlevel.current_trio_token()
        try:
            reason = await self._wait(step)
        finally:
            self.waited_seconds += time.monotonic() - began
        if reason is None:
            self._session.begin(step)
            self._last_step = step
        return reason

    async def _wait(self, step: Step) -> str | None:
        paused_until = trio.current_time() + self._timeout
        while True:
            # Before the session is asked, so that no request between asking and waiting is missed.
            self._requested = trio.Event()
            if self._session.end:
                return self._session.end
            now = trio.current_time()
            go, interval = self._session.ready()
            due = self._began + interval
            if go and now >= due:
                # From the planned time, so that short delays do not add up; but nothing is made up for after a pause.
                self._began = due if now < due + interval else now
                await trio.lowlevel.checkpoint()
                return None
            if not go and now >= paused_until:
                self._abandoned = True
                return f"it was paused before step {step} for more than {self._timeout:g} s without a request"
            with trio.move_on_at(due if go else paused_until):
                await self._requested.wait()
                paused_until = trio.current_time() + self._timeout

    def _wake_run(self) -> None:
        """Let the run look at the session again; called in the thread of the server."""
        self._asked.set()
        if self._run_token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._run_token.run_sync_soon(self._on_request)

    def _on_request(self) -> None:
        if self._requested is not None:
            self._requested.set()

    def after_step(self, step: Step, result: StepResult, arrivals: UnreadArrivals) -> bool:
        """Record the effects of `step`; return whether it was the last step."""
        over = self._session.after(step, result)
        self._frames.add(step, result.rows, arrivals, result.altered_copies, after=over or self._session.is_past(step))
        self._thread.call(self._server.changed)
        return over

    def end(self) -> None:
        """Accept no more faults."""
        self._session.finish()
        self._frames.finish(self._last_step)
        self._thread.call(self._server.changed)

"""The state of a watched run that pages change by their requests, and the faults that they add.

Nothing here waits or does I/O. The thread of the run and the thread of the server both call a `WatchState`; each method
holds its lock, so that a fault is either accepted for the next step before that step begins, or for the step after it.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator.networks.base import StepResult
from coordinator.planning.plan import Plan
from coordinator.scenario.command import LONGEST_COMMAND, run_command
from coordinator.scenario.fault_syntax import meaning_of
from emunode.errors import ScenarioError
from emunode.faults.kinds import KINDS, LinkFault, NodeFault, field_names, value_names
from emunode.model import Step

MOST_CLICKS: Final = 1_000
"""Faults that pages may add to one run."""
MOST_STEPS_PER_SECOND: Final = 1_000.0
LEAST_STEPS_PER_SECOND: Final = 0.1
MOST_STEPS: Final = 2**31 - 1
REQUESTS: Final = ("step", "run", "pause", "fault", "undo", "branch", "again", "end", "close")
FOLLOWED: Final = "the run goes on to its end, and then another one begins"
OVER: Final = "the run is over: branch, or start again"
FULL: Final = "this page has as many runs as it can show"


@dataclass(frozen=True)
class Status:
    """The state of a session at one moment."""

    version: int
    """Grows with every change."""
    plan: Plan
    next_step: Step
    """The step that runs next; a new fault takes effect in this step."""
    running: bool
    """Whether the next step begins without a request."""
    rate: float
    """Steps per second while it runs; 0: as fast as possible."""
    undoable: bool
    """Whether the last added fault is not in force yet."""
    over: bool
    """Whether no step follows."""
    refusal: str
    """Why neither a step nor a fault can be asked for; empty if they can."""
    last: str
    """Why no other run can follow; empty if one can."""
    steps: Step | None = None
    """The steps that the run will have with the faults so far, if that is known."""

    @property
    def command(self) -> str:
        """The command that repeats the run up to now; empty if it would be too long for a shell."""
        command = run_command(self.plan.scenario)
        return command if len(command) <= LONGEST_COMMAND else ""


class WatchState:
    """The requests of pages, and their consequences. A session pauses after step `until`, by default before step 1."""

    def __init__(self, plan: Plan, until: Step = 0, version: int = 0, *, may_branch: bool = True) -> None:
        """Begin a session; pages take `version`, the number of its first state, for newer than smaller ones."""
        self._may_branch = may_branch
        self._lock = threading.Lock()
        self._planned = plan.scenario.fault
        self._plan = plan
        self._added: list[tuple[Step, str]] = []
        """The steps when added faults take effect, and their specifications."""
        self._next_step: Step = 1
        self._left: int | None = until
        """Steps that may begin without another request; None: all of them."""
        self._rate = 0.0
        self._at_once = True
        """Whether the next step begins as soon as it may: the first one after a request."""
        self._version = version
        self._branch: Step | None = None
        self._again = False
        self._closed = False
        self._end: str | None = None
        self._over = False
        self._asked = False
        """Whether somebody has clicked Step or Run."""
        self._expected: tuple[Sequence[str], Step | None] = ((), None)
        """Some faults, and the last step in which something is sent with them."""

    def status(self) -> Status:
        """Return the present state."""
        with self._lock:
            undoable = bool(self._added) and self._added[-1][0] == self._next_step
            running = self._left != 0
            return Status(
                self._version, self._plan, self._next_step, running, self._rate, undoable and not self._over, self._over,
                self._refusal("step"), self._refusal("branch"), self._steps,
            )  # fmt: skip

    @property
    def _steps(self) -> Step | None:
        """The steps of the run with its present faults, if that is known."""
        faults, steps = self._expected
        return steps if faults == self._plan.scenario.fault else None

    # --- the run ---------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """The plan with the faults added so far; after the run, without the faults that came too late for a step."""
        with self._lock:
            return self._plan

    @property
    def end(self) -> str | None:
        """Why the run is to end now, or None."""
        with self._lock:
            return self._end

    @property
    def branch(self) -> Step | None:
        """The last common step of this run and a branch that a page wants, or None."""
        with self._lock:
            return self._branch

    @property
    def again(self) -> bool:
        """Whether the next run is the first one once more, without the faults that pages have added."""
        with self._lock:
            return self._again

    @property
    def closed(self) -> bool:
        """Whether a page has asked to close."""
        with self._lock:
            return self._closed

    def ready(self) -> tuple[bool, float]:
        """Return whether the next step may begin, and how many seconds after the beginning of the last step.

        After the last send no click is needed: nodes read the last arrivals, and the run ends.
        """
        with self._lock:
            steps = self._steps
            if self._asked and steps is not None and self._next_step > steps:
                return True, 0.0
            return self._left != 0, 1 / self._rate if self._rate and not self._at_once else 0.0

    def is_past(self, step: Step) -> bool:
        """Return whether it is known that nothing is sent in `step` and later."""
        with self._lock:
            return self._steps is not None and step > self._steps

    def expect(self, faults: Sequence[str], steps: Step | None) -> None:
        """Take note of the last step in which something is sent under these faults."""
        with self._lock:
            self._expected = faults, steps
            self._version += 1

    def begin(self, step: Step) -> None:
        """Begin `step`: from now on, added faults take effect in the next step."""
        with self._lock:
            self._next_step, self._at_once = step + 1, False
            if self._left:
                self._left -= 1
            self._version += 1

    def after(self, step: Step, result: StepResult) -> bool:
        """Take note that `step` has run; return whether it was the last step."""
        with self._lock:
            over = self._plan.is_over(step, result.busy)
            if over:
                self._finish()
            return over

    def finish(self) -> None:
        """Accept no more faults, and forget faults that had no step to take effect in."""
        with self._lock:
            self._finish()

    def _finish(self) -> None:
        if self._over:
            return
        self._over, self._left = True, 0
        self._version += 1
        self._added = [(step, spec) for step, spec in self._added if step < self._next_step]
        self._replan(self._added)

    # --- requests --------------------------------------------------------------------------------------------------

    def request(self, request: Mapping[str, Any]) -> None:
        """Carry out the request of a page; ScenarioError if it is not valid or comes too late."""
        what = request.get("do")
        if what not in REQUESTS:
            raise ScenarioError("do", what, f"expected one of: {', '.join(REQUESTS)}")
        with self._lock:
            if refusal := self._refusal(what):
                raise ScenarioError("do", what, refusal)
            self._asked |= what in ("step", "run")
            match what:
                case "step":
                    self._left, self._at_once = _whole("steps", request.get("steps", 1), MOST_STEPS), True
                case "run":
                    rate = _rate(request.get("rate", 0))
                    # A change of the speed of a run does not begin a step.
                    self._at_once = self._at_once or self._left is not None
                    self._left, self._rate = None, rate
                case "pause":
                    self._left = 0
                case "fault":
                    self._add(request)
                case "undo":
                    self._undo()
                case "branch" | "again":
                    self._again = what == "again"
                    step = 0 if self._again else request.get("step")
                    self._branch = _whole("step", step, self._next_step - 1, least=0)
                    # The run goes on to its end, so that there are two histories to compare.
                    self._left, self._rate, self._at_once = None, 0.0, True
                case "end":
                    self._branch, self._end = None, "it was ended from its page before its last step"
                case "close":
                    self._closed = True
            self._version += 1

    def _refusal(self, what: str) -> str:
        if what == "close" and not self._over:
            return "the run is not over yet"
        if self._branch is not None and what != "end":
            return FOLLOWED
        if what in ("branch", "again"):
            return "" if self._may_branch else FULL
        if not self._over or what == "close":
            return ""
        return OVER if self._may_branch and what != "end" else "the run is over"

    def stop(self, reason: str) -> None:
        """Let the run end, undecided for this reason, before its next step."""
        with self._lock:
            self._end = self._end or reason

    def _add(self, request: Mapping[str, Any]) -> None:
        if len(self._added) >= MOST_CLICKS:
            raise ScenarioError("fault", len(self._added), f"at most {MOST_CLICKS:,} faults can be added to one run")
        added = [*self._added, (self._next_step, specification(self._plan, request, self._next_step))]
        # Raises before anything has changed if the fault contradicts another one.
        self._replan(added)
        self._added = added

    def _undo(self) -> None:
        if not self._added or self._added[-1][0] != self._next_step:
            raise ScenarioError("undo", None, "no added fault is left that is not in force yet")
        self._added.pop()
        self._replan(self._added)

    def _replan(self, added: list[tuple[Step, str]]) -> None:
        self._plan = self._plan.with_faults((*self._planned, *(spec for _, spec in added)))


def specification(plan: Plan, request: Mapping[str, Any], step: Step) -> str:
    """Return the fault that a page asks for, as text of a scenario.

    `request` has these keys: `kind`; `rank`, the node, or one end of the link whose `port` is given too; `both`, for
    both directions of a link. A `value` is given if the kind has one. `steps` is how long the fault lasts; without it,
    to the end.

    Raises ScenarioError for an invalid value.
    """
    topology, kind = plan.topology, request.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ScenarioError("kind", kind, f"expected one of: {', '.join(KINDS)}")
    record = KINDS[kind]
    rank = _whole("rank", request.get("rank"), topology.order - 1, least=0)
    where = topology.label(rank)
    if issubclass(record, LinkFault):
        port = _whole("port", request.get("port"), topology.degree - 1, least=0)
        if port not in topology.ports(rank):
            raise ScenarioError("port", port, f"node {where} has the ports {', '.join(map(str, topology.ports(rank)))}")
        arrow = "~" if request.get("both", True) is True else ">"
        where += arrow + topology.label(topology.neighbour(rank, port))
    for _ in value_names(record):
        value = request.get("value")
        if not isinstance(value, str) or len(value) > 40:
            raise ScenarioError("value", value, f"expected the value of {record.form} as a text")
        where += f":{value}"
    steps = request.get("steps")
    if steps is None or "last" not in field_names(record):
        return f"{kind}:{where}@{step}"
    last = step - 1 + _whole("steps", steps, MOST_STEPS - step)
    return f"{kind}:{where}@{step}-{last}"


def fault_kinds() -> list[dict[str, object]]:
    """Return the kinds of faults that pages offer.

    Kinds that need the timed clock are left out, since no run is watched under that clock.
    """
    return [
        {
            "kind": kind,
            "on": "node" if issubclass(record, NodeFault) else "link",
            "values": list(value_names(record)),
            "lasts": "last" in field_names(record),
            "meaning": meaning_of(record),
        }
        for kind, record in KINDS.items()
        if not record.slows
    ]


def _whole(name: str, value: object, most: int, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ScenarioError(name, value, f"expected a whole number from {least} to {most}")
    return value


def _rate(value: object) -> float:
    """Return the steps per second; 0 stands for as many as possible."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ScenarioError("rate", value, "expected steps per second as a number, or 0 for as many as possible")
    if value and not LEAST_STEPS_PER_SECOND <= value <= MOST_STEPS_PER_SECOND:
        raise ScenarioError(
            "rate", value, f"expected {LEAST_STEPS_PER_SECOND:g} to {MOST_STEPS_PER_SECOND:g} steps per second, or 0"
        )
    return float(value)

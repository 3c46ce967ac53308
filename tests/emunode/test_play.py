"""The step loop: when it ends, when faults begin, and what it yields."""

from typing import NamedTuple

from emunode.play import play


class Start(NamedTuple):
    """A fault, as far as the loop needs it."""

    step: int
    name: str


class Countdown:
    """An engine that is busy for some steps, and longer with every fault."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.calls: list[tuple[int, tuple[str, ...]]] = []

    @property
    def busy(self) -> bool:
        return self.left > 0

    def step(self, step: int, faults: list[Start] | None = None) -> str:
        self.left += len(faults or ()) - 1
        self.calls.append((step, tuple(fault.name for fault in faults or ())))
        return f"rows of step {step}"


def test_a_run_ends_after_the_step_that_leaves_nothing_to_do() -> None:
    engine = Countdown(3)
    assert list(play(engine)) == ["rows of step 1", "rows of step 2", "rows of step 3"]
    assert not engine.busy


def test_an_idle_engine_runs_one_step() -> None:
    assert list(play(Countdown(0))) == ["rows of step 1"]


def test_faults_begin_in_their_steps_in_the_given_order() -> None:
    engine = Countdown(2)
    list(play(engine, [Start(2, "b"), Start(9, "never"), Start(1, "c"), Start(2, "a")]))
    # Three faults make the two steps five.
    assert engine.calls == [(1, ("c",)), (2, ("b", "a")), (3, ()), (4, ()), (5, ())]


def test_a_limit_leaves_the_engine_busy() -> None:
    engine = Countdown(5)
    assert len(list(play(engine, limit=4))) == 4
    assert engine.busy


def test_another_condition_decides_when_a_run_is_over() -> None:
    engine = Countdown(1)
    seen: list[tuple[int, bool]] = []

    def over(step: int, busy: bool) -> bool:
        seen.append((step, busy))
        return step == 3

    assert len(list(play(engine, over=over))) == 3
    assert seen == [(1, False), (2, False), (3, False)]


def test_the_caller_may_stop_between_two_steps() -> None:
    engine = Countdown(9)
    for _ in play(engine):
        break
    assert engine.calls == [(1, ())]

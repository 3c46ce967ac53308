"""Failure processes: every node or link fails and is repaired at random, by steps or in time.

By steps, an element is a Markov chain with two states. At the beginning of each step a working element fails with
probability a, and a failed one is repaired with probability b. So the times to failure and to repair are geometric, with
means 1/a and 1/b steps. In time they are exponential, or have a Weibull law, with a mean time to failure (MTTF) and a
mean time to repair (MTTR). The mean time between failures (MTBF) is MTTF + MTTR. The long-run availability is MTTF /
MTBF = b / (a + b).

Each waiting time is drawn by inversion from a hash of the seed, the process, the element and the number of the change.
So another element, process or end changes no event. The events become ordinary faults: a node crashes and recovers with
fresh state, a link is down for an interval.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from math import expm1, floor, gamma, log1p
from typing import Final, NamedTuple, Self

from coordinator.scenario.fault_syntax import LEAST_RATE, REAL, TIME, read_time, write_time
from emunode.model import Step

MOST_EVENTS: Final = 100_000
"""The most outages of one draw of a process."""
LEAST_MEAN: Final = 1_000
"""The shortest mean of a waiting time, in nanoseconds. A single waiting time is at least 1 ns."""
LEAST_SHAPE: Final = 0.1
MOST_SHAPE: Final = 100.0
MEAN: Final = re.compile(r"(?P<word>mttf|mtbf|mttr):(?P<mean>[^:]+)(?::weibull:(?P<shape>[^:]+))?")
MOST_STEPS: Final = 10**15
"""The longest mean in steps. Its rate is still above the resolution of the random numbers."""
assert Decimal(1) / MOST_STEPS > LEAST_RATE


@dataclass(frozen=True)
class Lifetime:
    """A waiting time with a mean in nanoseconds.

    Its law is exponential, or a Weibull law if its shape is not 1.
    """

    mean: int
    shape: float = 1.0

    @property
    def name(self) -> str:
        """As it is written, after `mttf:` or `mttr:`."""
        return write_time(self.mean) + (f":weibull:{self.shape:.12g}" if self.shape != 1 else "")

    @cached_property
    def scale(self) -> float:
        """The scale of the law in nanoseconds; a Weibull law has the mean scale x gamma(1 + 1 / shape)."""
        return self.mean / gamma(1 + 1 / self.shape)

    def wait(self, stream: str) -> int:
        """Return a waiting time in nanoseconds, rounded, at least 1."""
        return max(1, round(self.scale * math.pow(-log1p(-_uniform(stream)), 1 / self.shape)))


@dataclass(frozen=True)
class Geometric:
    """A waiting time in steps, with the probability `rate` to end in each step."""

    rate: float

    def wait(self, stream: str) -> Step | None:
        """Return a number of steps, at least 1.

        None if an event with this probability per step never happens.
        """
        if self.rate <= 0:
            return None
        if self.rate >= 1:
            return 1
        return 1 + floor(log1p(-_uniform(stream)) / log1p(-self.rate))


def _uniform(stream: str) -> float:
    """Return a number in [0, 1) with 53 random bits."""
    word = int.from_bytes(blake2b(stream.encode(), digest_size=8).digest(), "little")
    return (word >> 11) * 2.0**-53


class Outage(NamedTuple):
    """The first step or nanosecond of an outage, and that of its repair.

    The repair is None if there is none in the window.
    """

    begin: int
    repaired: int | None


class Window(NamedTuple):
    """Where outages may begin.

    By steps, from step `first` to the one before `end`. In time, after the time `first` and before `end`.
    """

    first: int
    end: int
    timed: bool = False

    def downtime(self, outage: Outage) -> int:
        """Return the steps or nanoseconds of this window when an element is out of service."""
        return (self.end if outage.repaired is None else outage.repaired) - outage.begin

    @property
    def length(self) -> int:
        """Its steps or nanoseconds."""
        return self.end - self.first


def outages(
    failure: Lifetime | Geometric, repair: Lifetime | Geometric, window: Window, stream: str
) -> Iterator[Outage]:
    """Yield the outages of one element that works before the window."""
    # In step `first` it may fail already; at time `first` it begins to work.
    now = window.first if window.timed else window.first - 1
    change = 0
    while (wait := failure.wait(f"{stream}/{change}")) is not None and now + wait < window.end:
        begin = now + wait
        wait = repair.wait(f"{stream}/{change + 1}")
        if wait is None or begin + wait >= window.end:
            yield Outage(begin, None)
            return
        now, change = begin + wait, change + 2
        yield Outage(begin, now)


def expected_availability(failure: Lifetime | Geometric, repair: Lifetime | Geometric, window: Window) -> float | None:
    """Return the mean share of a window when an element works.

    None for a Weibull law, since no closed form is known. The chain works in step t with probability A + (1 - A) (1 - a
    - b)^t, where A = b / (a + b). In continuous time, with rates a and b, it is A + (1 - A) exp(-(a + b) t).
    """
    if not window.length:
        return 1.0
    if isinstance(failure, Lifetime):
        if failure.shape != 1 or (isinstance(repair, Lifetime) and repair.shape != 1):
            return None
        a, b = 1 / failure.mean, 1 / repair.mean if isinstance(repair, Lifetime) else 0.0
        share = -expm1(-(a + b) * window.length) / ((a + b) * window.length)
        return (b + a * share) / (a + b)
    assert isinstance(repair, Geometric)
    a, b = failure.rate, repair.rate
    if not a:
        return 1.0
    stays = 1 - a - b
    share = stays * (1 - stays**window.length) / ((a + b) * window.length)
    return (b + a * share) / (a + b)


# --- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean:
    """A mean waiting time as it was written: in nanoseconds, or in steps."""

    amount: Fraction
    timed: bool
    shape: float = 1.0
    between: bool = False
    """Whether it is the mean time between failures, repair included."""

    @classmethod
    def read(cls, text: str, words: tuple[str, ...]) -> Self:
        """Parse a text such as `mttf:2s:weibull:1.5` or `mttr:5`.

        Raises ValueError with the expected form.
        """
        match = MEAN.fullmatch(text)
        if match is None or match["word"] not in words:
            forms = " or ".join(f"{word}:TIME" for word in words)
            raise ValueError(
                f"expected a rate from 0 to 1, or {forms}, such as {words[0]}:2s or {words[0]}:100 (steps)"
            )
        word, timed = match["word"], TIME.fullmatch(match["mean"]) is not None
        time = read_time(match["mean"])
        if timed and time is not None:
            amount, allowed = Fraction(time), time >= LEAST_MEAN
        elif REAL.fullmatch(match["mean"]):
            amount = Fraction(Decimal(match["mean"]))
            allowed = 1 <= amount <= MOST_STEPS
        else:
            allowed = False
        if not allowed:
            raise ValueError(
                f"{word} is a time from 1us to 1e9s with its unit, such as 2s, or 1 to {MOST_STEPS:.0e} steps"
            )
        return cls(amount, timed, _shape(match["shape"], timed=timed), word == "mtbf")

    def without(self, repair: "Mean | None") -> "Mean":
        """Return the mean time to failure.

        Of a mean time between failures, `repair` is subtracted. Raises ValueError.
        """
        if not self.between:
            return self
        if repair is None or repair.timed != self.timed:
            raise ValueError("mtbf is mttf + mttr: give the repair too, in the same unit, such as repair=mttr:200ms")
        amount = self.amount - repair.amount
        if amount < (LEAST_MEAN if self.timed else 1):
            raise ValueError("mtbf is mttf + mttr, so it must be longer than the mean time to repair")
        return replace(self, amount=amount, between=False)

    @property
    def lifetime(self) -> Lifetime | None:
        """The law in time; None in steps."""
        return Lifetime(round(self.amount), self.shape) if self.timed else None

    @property
    def rate(self) -> float:
        """The probability per step; 0 in time."""
        return 0.0 if self.timed else float(1 / self.amount)


def _shape(text: str | None, *, timed: bool) -> float:
    if text is None:
        return 1.0
    if not timed:
        raise ValueError("waiting times in steps are geometric; a Weibull law needs a mean in time, such as 2s")
    if not REAL.fullmatch(text) or not LEAST_SHAPE <= float(text) <= MOST_SHAPE:
        raise ValueError(f"the shape of a Weibull law is a number from {LEAST_SHAPE:g} to {MOST_SHAPE:g}, got {text!r}")
    return float(text)

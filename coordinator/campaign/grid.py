"""What a campaign runs: variants of a scenario, under points of faults, so many draws each.

Everything here is decided from the grid and what is finished, so a campaign that was killed goes on as if it had not been.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import product
from math import prod, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from coordinator.campaign.laboratory import Trial, plan_trials
from coordinator.fault_sets import Places, Recipe, draw, every_set, parse_recipes, set_count
from coordinator.plan import Plan
from coordinator.scenario import Scenario, make_scenario
from emunode import __version__
from emunode.errors import ScenarioError

MOST_TRIALS = 1_000_000
"""Of one variant at one point."""
MOST_VALUES = 10_000
"""Of one field that is varied, and combinations of all of them."""
CHUNK = 50
"""Draws after which a campaign that goes on until it is precise looks whether it is."""


Done = Mapping[tuple[int, int], Mapping[int, bool | None]]
"""(point, variant) -> the draws that are finished, and whether all were served; None where that is undecided."""


class Key(NamedTuple):
    """A trial of a campaign: which point, which variant, which draw."""

    point: int
    variant: int
    number: int


@dataclass(frozen=True)
class Variant:
    """One scenario of the grid: what is varied in it, and what became of it."""

    varied: Mapping[str, object]
    scenario: Scenario
    plan: Plan

    @property
    def name(self) -> str:
        """Its values of what is varied; of a redundancy that the algorithm has not, nothing."""
        words = [
            f"x={value}" if key == "redundancy" else str(value)
            for key, value in self.varied.items()
            if not (key == "redundancy" and self.plan.algorithm.max_redundancy == 1)
        ]
        return " ".join(words) or self.scenario.algorithm


@dataclass(frozen=True)
class Grid:
    """The variants, the points, and how many trials each pair of them gets.

    `trials` is the most; with a `precision`, the half width of the confidence interval of guaranteed delivery, a point ends
    as soon as all its variants are as precise. All variants of a point meet the same draws.
    """

    base: Mapping[str, object]
    vary: Mapping[str, Sequence[object]]
    faults: Sequence[str]
    trials: int = 1000
    precision: float | None = None
    left_out: list[str] = field(default_factory=list, compare=False)
    """Combinations that the algorithm has not, and why."""

    def __post_init__(self) -> None:
        if not 1 <= self.trials <= MOST_TRIALS:
            raise ScenarioError("trials", self.trials, f"a number from 1 to {MOST_TRIALS:,}")
        if self.precision is not None and not 0 < self.precision < 1:
            raise ScenarioError("precision", self.precision, "half the width of an interval, between 0 and 1")
        for name, values in self.vary.items():
            if name in ("fault", "driver", "name"):
                raise ScenarioError("vary", name, "faults are varied with --faults, and a campaign has one driver")
            if len(values) > MOST_VALUES:
                raise ScenarioError("vary", name, f"at most {MOST_VALUES:,} values, and these are {len(values):,}")
            if not values:
                raise ScenarioError("vary", name, "give it at least one value: a grid of no trials shows nothing")
        if prod(map(len, self.vary.values())) > MOST_VALUES:
            raise ScenarioError("vary", ", ".join(self.vary), f"at most {MOST_VALUES:,} combinations of values")
        if not self.points:
            raise ScenarioError("faults", "", "give at least one point, such as --faults nodes=0..4")

    @cached_property
    def points(self) -> list[Recipe]:
        """The sets of faults, in the order in which they were given, ranges by ascending number."""
        return list(dict.fromkeys(recipe for text in self.faults for recipe in parse_recipes(text)))

    @cached_property
    def variants(self) -> list[Variant]:
        """The scenarios of the grid; ScenarioError when it has none, or a value is none.

        A redundancy that one algorithm has and another has not is left out for the other, and said to be.
        """
        found: list[Variant] = []
        for values in product(*self.vary.values()):
            varied = dict(zip(self.vary, values, strict=True))
            scenario = make_scenario({**self.base, **varied})
            try:
                found.append(Variant(varied, scenario, plan_trials(scenario)))
            except ScenarioError as error:
                if error.field != "redundancy" or "redundancy" not in self.vary:
                    raise
                self.left_out.append(str(error))
        if not found:
            raise ScenarioError("vary", "redundancy", f"that leaves no trials: {self.left_out[0]}")
        return found

    def check(self) -> None:
        """Draw one set of each point for each variant, so that what cannot be drawn is known before anything runs."""
        for variant in range(len(self.variants)):
            for point in range(len(self.points)):
                next(self._sets(variant, point, [0]), None)

    @cached_property
    def places(self) -> list[Places]:
        """Where each variant can break."""
        return [Places(variant.plan.algorithm) for variant in self.variants]

    @property
    def fingerprint(self) -> str:
        """Of all that decides what a trial is; how many of them there are is left free, so that more can be asked for."""
        scenarios = [variant.scenario.model_dump(mode="json") for variant in self.variants]
        said = f"{__version__}/{scenarios}/{[recipe.name for recipe in self.points]}"
        return blake2b(said.encode(), digest_size=16).hexdigest()

    def wanted(self, point: int, variant: int) -> int:
        """Draws at a point, at most."""
        return min(self.trials, set_count(self.points[point], self.places[variant]) or self.trials)

    def whole(self, point: int, variant: int) -> bool:
        """Whether a point goes through every set it has, so that its figures are exact."""
        count = set_count(self.points[point], self.places[variant])
        return count is not None and count <= self.trials

    def _sets(self, variant: int, point: int, missing: Iterable[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """(draw, its set of faults) for the draws that are asked for, ascending."""
        recipe, places, seed = self.points[point], self.places[variant], self.variants[variant].scenario.seed
        if recipe.how != "all":
            yield from ((number, draw(recipe, places, seed, number)) for number in missing)
            return
        if (set_count(recipe, places) or 0) > MOST_TRIALS:
            raise ScenarioError("faults", recipe.name, f"it has more than {MOST_TRIALS:,} sets; draw at random")
        wanted = set(missing)
        yield from ((number, faults) for number, faults in enumerate(every_set(recipe, places)) if number in wanted)

    def rest(self, done: Done) -> Iterator[tuple[Key, Trial]]:
        """What to run next, given what is finished; nothing means that the campaign is over.

        The order is by variant, so that networks stay up.
        """
        targets = [self._target(point, done) for point in range(len(self.points))]
        for variant in range(len(self.variants)):
            for point, target in enumerate(targets):
                finished = done.get((point, variant), {})
                missing = [n for n in range(min(target, self.wanted(point, variant))) if n not in finished]
                for number, faults in self._sets(variant, point, missing):
                    seed = trial_seed(self.variants[variant].scenario.seed, self.points[point], number)
                    yield Key(point, variant, number), Trial(variant, faults, seed)

    def _target(self, point: int, done: Done) -> int:
        """Draws that a point is to have after this round."""
        open_ended = [variant for variant in range(len(self.variants)) if not self.whole(point, variant)]
        if self.precision is None or not open_ended:
            return self.trials
        finished = [done.get((point, variant), {}) for variant in open_ended]
        checked = min(_without_gap(numbers) for numbers in finished) // CHUNK * CHUNK
        narrow = checked and all(
            half_width(numbers[number] for number in range(checked)) <= self.precision for numbers in finished
        )
        return checked if narrow else min(self.trials, checked + CHUNK)


def _without_gap(numbers: Collection[int]) -> int:
    """How many numbers from 0 on are there."""
    return next(number for number in range(len(numbers) + 1) if number not in numbers)


def trial_seed(seed: int, recipe: Recipe, number: int) -> int:
    """The seed of a trial: that of the scenario, or where something is left to chance in each step, one of its own."""
    return (seed + number) % 2**63 if any(part.argument for part in recipe.parts) else seed


def half_width(outcomes: Iterable[bool | None]) -> float:
    """Half the width of the interval of the share of trials in which all were served."""
    counted = [outcome for outcome in outcomes if outcome is not None]
    low, high = wilson(sum(counted), len(counted))
    return (high - low) / 2


def wilson(successes: float, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Confidence interval of a share (Wilson 1927), 95% unless `z` says otherwise; (0, 1) of no trials."""
    if not trials:
        return 0.0, 1.0
    share, square = successes / trials, z * z / trials
    centre = (share + square / 2) / (1 + square)
    margin = z * sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    return max(0.0, centre - margin), min(1.0, centre + margin)


MANY = 30


def mean_interval(shares: Sequence[float], z: float = 1.959964) -> tuple[float, float]:
    """Confidence interval of the mean of numbers from 0 to 1, by their standard error.

    Of few numbers, and of those that are all the same, that of Wilson, which is on the safe side: nothing between 0 and 1
    varies more than what is 0 or 1.
    """
    mean = fmean(shares) if shares else 0.0
    if len(shares) < MANY or min(shares) == max(shares):
        return wilson(mean * len(shares), len(shares), z)
    margin = z * stdev(shares) / sqrt(len(shares))
    return max(0.0, mean - margin), min(1.0, mean + margin)

"""What a campaign runs: variants of a scenario, under points of faults, so many draws each.

Everything here is decided from the grid and what is finished, so a campaign that was killed goes on as if it had not been.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import product
from math import prod
from typing import NamedTuple

from coordinator.campaigns.statistics import half_width
from coordinator.campaigns.trial_runner import Trial, plan_trials
from coordinator.planning.plan import Plan
from coordinator.scenario.fault_sets import FaultSetSpec, FaultSites, draw, parse_fault_sets, sample_numbers, set_count
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario, make_scenario
from emunode.errors import ScenarioError

MOST_TRIALS = 1_000_000
"""Of one variant at one point."""
MOST_VALUES = 10_000
"""Of one field that is varied, and combinations of all of them."""
DRAWS = "0.1.0"
"""The version whose draws these are: a campaign that another version began is resumed unless its draws have changed."""
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
    def points(self) -> list[FaultSetSpec]:
        """The sets of faults, in the order in which they were given, ranges by ascending number."""
        return list(dict.fromkeys(fault_set for text in self.faults for fault_set in parse_fault_sets(text)))

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
        for at, variant in enumerate(self.variants):
            for point in range(len(self.points)):
                for _, faults in self._sets(at, point, self.numbers(point, at)[:1]):
                    parse_faults((*variant.plan.scenario.fault, *faults), variant.plan.topology)

    @cached_property
    def places(self) -> list[FaultSites]:
        """Where each variant can break, besides what its scenario breaks anyway."""
        return [FaultSites(variant.plan.algorithm, variant.plan.scenario.fault) for variant in self.variants]

    @property
    def fingerprint(self) -> str:
        """Of all that decides what a trial is; how many of them there are is left free, so that more can be asked for."""
        scenarios = [_described(variant.scenario) for variant in self.variants]
        said = f"{DRAWS}/{scenarios}/{[fault_set.name for fault_set in self.points]}"
        redrawn = [fault_set.name for fault_set in self.points if self._redrawn(fault_set)]
        return blake2b(f"{said}/{redrawn}".encode() if redrawn else said.encode(), digest_size=16).hexdigest()

    def _redrawn(self, fault_set: FaultSetSpec) -> bool:
        """Whether draws are others than in version 0.1.0, so that a campaign that it began cannot be resumed.

        Its parts shared random numbers, and it drew places that the scenario breaks anyway.
        """
        kinds = [part.on_links for part in fault_set.parts]
        broken = {isinstance(place, tuple) for places in self.places for place in places.broken}
        return bool(broken.intersection(kinds)) or (
            fault_set.how not in ("all", "busiest") and len(set(kinds)) < len(kinds)
        )

    def set_count(self, point: int, variant: int) -> int | None:
        """How many sets a point has; None where sets are drawn at random."""
        return set_count(self.points[point], self.places[variant])

    def numbers(self, point: int, variant: int) -> Sequence[int]:
        """The draws of a point in the order in which they are run: at most `trials`.

        For `all` with more sets than that they are a random sample of the numbers of its sets.
        """
        known = self._numbers.get((point, variant))
        if known is None:
            known = self._numbers[point, variant] = self._choose_numbers(self.points[point], variant)
        return known

    @cached_property
    def _numbers(self) -> dict[tuple[int, int], Sequence[int]]:
        return {}

    def _choose_numbers(self, fault_set: FaultSetSpec, variant: int) -> Sequence[int]:
        places = self.places[variant]
        count = set_count(fault_set, places)
        if fault_set.how != "all":
            return range(min(self.trials, count or self.trials))
        if not count:
            raise ScenarioError("faults", fault_set.name, "it wants more nodes or links than may fail")
        if count > MOST_TRIALS:
            raise ScenarioError("faults", fault_set.name, f"it has more than {MOST_TRIALS:,} sets; draw at random")
        return sample_numbers(fault_set, places, self.variants[variant].scenario.seed, self.trials)

    def wanted(self, point: int, variant: int) -> int:
        """Draws at a point, at most."""
        return len(self.numbers(point, variant))

    def whole(self, point: int, variant: int) -> bool:
        """Whether a point goes through every set it has, so that its figures are exact."""
        return self.set_count(point, variant) == self.wanted(point, variant)

    def counted(self, point: int, variant: int, finished: Collection[int]) -> Collection[int]:
        """The finished draws that figures are made of: all, or of `all` only the random sample as long as sets are missing.

        Version 0.1.0 ran the first sets in order, which is no sample.
        """
        if self.points[point].how != "all" or len(finished) == self.set_count(point, variant):
            return finished
        return set(finished).intersection(self.numbers(point, variant))

    def _sets(self, variant: int, point: int, missing: Iterable[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """(draw, its set of faults) for the draws that are asked for."""
        fault_set, places, seed = self.points[point], self.places[variant], self.variants[variant].scenario.seed
        return ((number, draw(fault_set, places, seed, number)) for number in missing)

    def rest(self, done: Done) -> Iterator[tuple[Key, Trial]]:
        """What to run next, given what is finished; nothing means that the campaign is over.

        The order is by variant, so that networks stay up.
        """
        targets = [self._target(point, done) for point in range(len(self.points))]
        for variant in range(len(self.variants)):
            for point, target in enumerate(targets):
                finished = done.get((point, variant), {})
                missing = [number for number in self.numbers(point, variant)[:target] if number not in finished]
                for number, faults in self._sets(variant, point, missing):
                    seed = trial_seed(self.variants[variant].scenario.seed, self.points[point], number)
                    yield Key(point, variant, number), Trial(variant, faults, seed)

    def _target(self, point: int, done: Done) -> int:
        """Draws that a point is to have after this round."""
        open_ended = [variant for variant in range(len(self.variants)) if not self.whole(point, variant)]
        if self.precision is None or not open_ended:
            return self.trials
        finished = [(done.get((point, variant), {}), self.numbers(point, variant)) for variant in open_ended]
        checked = min(_without_gap(order, numbers) for numbers, order in finished) // CHUNK * CHUNK
        narrow = checked and all(
            half_width(numbers[number] for number in order[:checked]) <= self.precision for numbers, order in finished
        )
        return checked if narrow else min(self.trials, checked + CHUNK)


def _described(scenario: Scenario) -> dict[str, object]:
    """A scenario as version 0.1.0 wrote it down: fields that no trial depends on must not make another campaign of it."""
    values = scenario.model_dump(mode="json", exclude={"worst_lateness_limit"})
    return values | {"netns": scenario.netns == "always"}


def _without_gap(order: Sequence[int], finished: Collection[int]) -> int:
    """How many draws are finished from the first one on."""
    return next((at for at, number in enumerate(order) if number not in finished), len(order))


def trial_seed(seed: int, fault_set: FaultSetSpec, number: int) -> int:
    """The seed of a trial: that of the scenario, or where something is left to chance in each step, one of its own."""
    return (seed + number) % 2**63 if any(part.argument for part in fault_set.parts) else seed

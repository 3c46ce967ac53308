"""The grid of a campaign: variants of a scenario, fault sets as points, and the draws of each pair.

The grid and the finished trials determine which trials are left. So a campaign that was killed resumes where it stopped.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from itertools import product
from math import prod
from typing import Final, NamedTuple

from coordinator.campaigns.engines import ENGINES, LEAST_SAMPLE, sample_size
from coordinator.campaigns.statistics import half_width
from coordinator.campaigns.trial_runner import Trial, fault_free_latency, plan_trials
from coordinator.planning.bounds import why_too_large
from coordinator.planning.feasibility import require_possible
from coordinator.planning.plan import Plan, run_time_of
from coordinator.planning.worst_faults import worst_set
from coordinator.scenario.declared_network import AS_DECLARED
from coordinator.scenario.fault_draws import FaultSites, sample_numbers, set_count
from coordinator.scenario.fault_sets import FaultSetSpec, parse_fault_sets
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import DEFAULT_BYTES, Scenario, make_scenario
from coordinator.scenario.networks import network_of
from coordinator.scenario.option import options_of
from coordinator.scenario.plugins import loaded_plugins, require_loaded
from coordinator.theory.batch.draws import Draws
from coordinator.theory.batch.engine import BatchEngine, batch_engine_of
from coordinator.theory.batch.point import PointEngine, why_messages
from coordinator.theory.dependence.size import InexactError
from emunode.errors import ScenarioError
from emunode.faults.kinds import is_random
from emunode.model import VECTOR
from emunode.topologies.table import TableTopology

MOST_TRIALS = 100_000_000
"""Most trials of one variant at one point."""
MOST_SAMPLED = 1_000_000
"""Most sets of `all` that allow a random sample without repetition."""
MOST_VALUES = 10_000
"""Most values of one varied field, and most combinations of values."""
UNCOUNTED: Final = ("worst_lateness_limit", "network_sha256", *AS_DECLARED, "netns", "plugin", "program_deadline")
"""Options that the fingerprint leaves out: no trial depends on them, and plug-ins enter it by their digests."""
CHUNK = 50
"""Draws between two checks of the precision."""


Done = Mapping[tuple[int, int], Mapping[int, bool | None]]
"""(point, variant) -> finished draws -> whether every node was served; None where that is undecided."""
Repeats = Mapping[tuple[int, int], Sequence[int]]
"""(point, variant) -> numbers of draws that were evaluated exactly and are run again with messages."""
NO_REPEATS: Final[Repeats] = {}


class Key(NamedTuple):
    """Identifies a trial: indices of its point and variant, and the number of its draw."""

    point: int
    variant: int
    number: int


@dataclass(frozen=True)
class Variant:
    """One scenario of the grid, with its values of the varied fields."""

    varied: Mapping[str, object]
    scenario: Scenario
    plan: Plan

    @property
    def name(self) -> str:
        """The values of the varied fields.

        Redundancy is left out where the algorithm has none.
        """
        words = [
            f"x={value}" if key == "redundancy" else str(value)
            for key, value in self.varied.items()
            if not (key == "redundancy" and self.plan.algorithm.max_redundancy == 1)
        ]
        return " ".join(words) or self.scenario.algorithm

    def value(self, name: str) -> object:
        """Return the value of a field.

        A network from a file has its name as value, wherever the file is.
        """
        return self.varied["topology"] if name == "topology" else getattr(self.plan.scenario, name)

    @cached_property
    def is_random(self) -> bool:
        """Whether faults of the scenario itself draw random numbers during a run."""
        return any(map(is_random, self.plan.faults))


@dataclass(frozen=True)
class Grid:
    """The variants, the points, and the number of trials per pair of a point and a variant.

    Methods take both as indices. Each pair has at most `trials`. With a `precision`, a point stops once the confidence
    interval of guaranteed delivery is narrower than +/- `precision` for all variants. All variants of a point have the
    same draws.
    """

    base: Mapping[str, object]
    vary: Mapping[str, Sequence[object]]
    faults: Sequence[str]
    trials: int = 1000
    precision: float | None = None
    engine: str = "messages"
    """How trials are run: `messages`, `exact`, or `auto` (see `engines`)."""
    left_out: list[str] = field(default_factory=list, compare=False)
    """Combinations that the algorithm does not support, with the reason."""

    def __post_init__(self) -> None:
        if not 1 <= self.trials <= MOST_TRIALS:
            raise ScenarioError("trials", self.trials, f"a number from 1 to {MOST_TRIALS:,}")
        if self.precision is not None and not 0 < self.precision < 1:
            raise ScenarioError("precision", self.precision, "half the width of a confidence interval, between 0 and 1")
        if self.engine not in ENGINES:
            raise ScenarioError("engine", self.engine, f"expected one of: {', '.join(ENGINES)}")
        for name, values in self.vary.items():
            if name in ("fault", "driver", "name", "plugin"):
                raise ScenarioError(
                    "vary", name, "vary faults with --faults; a campaign has one driver, one name and its --plugin"
                )
            if len(values) > MOST_VALUES:
                raise ScenarioError("vary", name, f"at most {MOST_VALUES:,} values are allowed, got {len(values):,}")
            if not values:
                raise ScenarioError("vary", name, "expected at least one value")
        if prod(map(len, self.vary.values())) > MOST_VALUES:
            raise ScenarioError("vary", ", ".join(self.vary), f"at most {MOST_VALUES:,} combinations of values")
        if not self.points:
            raise ScenarioError("faults", "", "give at least one point, such as --faults nodes=0..4")

    @cached_property
    def points(self) -> list[FaultSetSpec]:
        """The fault sets in the order given, ranges by ascending number of faults."""
        # `dict.fromkeys` drops repeated fault sets and keeps the order.
        return list(dict.fromkeys(fault_set for text in self.faults for fault_set in parse_fault_sets(text)))

    @cached_property
    def variants(self) -> list[Variant]:
        """The scenarios of the grid; ScenarioError if no variant is left or a value is invalid.

        A redundancy that only some algorithms support is left out for the others and listed in `left_out`.
        """
        variants: list[Variant] = []
        for values in product(*self.vary.values()):
            varied = dict(zip(self.vary, values, strict=True))
            scenario = make_scenario({**self.base, **varied})
            try:
                plan = plan_trials(scenario)
                if "topology" in varied and isinstance(plan.topology, TableTopology):
                    # Wherever its file is: the copy in the folder of the campaign has the name of the network too.
                    varied["topology"] = plan.topology.name
                variants.append(Variant(varied, scenario, plan))
            except ScenarioError as error:
                # Only a varied redundancy may be too large for some algorithms; any other error is the user's.
                if error.field != "redundancy" or "redundancy" not in self.vary:
                    raise
                self.left_out.append(str(error))
        if not variants:
            raise ScenarioError("vary", "redundancy", f"no trials are left: {self.left_out[0]}")
        return variants

    def why_too_large(self) -> str | None:
        """Return why the grid of a stored campaign is too large to plan, or None; nothing is built to find out."""
        named = self.base.get("plugin", ())
        require_loaded([each for each in named if isinstance(each, str)] if isinstance(named, list | tuple) else ())
        for values in product(*self.vary.values()):
            scenario = make_scenario({**self.base, **dict(zip(self.vary, values, strict=True))})
            if reason := why_too_large(scenario):
                return reason
        return None

    def check(self) -> None:
        """Draw one set per point and variant, so that errors show before anything runs.

        RunError if this machine cannot run a variant.
        """
        for at, variant in enumerate(self.variants):
            require_possible(variant.plan)
            for point in range(len(self.points)):
                # One draw per cell: it fails where a point needs more places than there are.
                for number in self.numbers(point, at)[:1]:
                    faults = self.draws(point, at).specs(number)
                    scenario = variant.plan.scenario
                    parse_faults((*scenario.fault, *faults), variant.plan.topology, timed=scenario.clock == "timed")
                if self.engine == "exact" and not self.exact(point, at):
                    where = f"{variant.name} under {self.points[point].name}"
                    raise ScenarioError(
                        "engine", "exact", f"{where}: {self.why_messages(point, at)}; use auto or messages"
                    )

    @cached_property
    def places(self) -> list[FaultSites]:
        """The places of each variant that can fail, without the places that its scenario breaks."""
        return [_places_of(variant.plan) for variant in self.variants]

    @property
    def searches(self) -> list[str]:
        """How each set of the strategy `worst` was found, in words."""
        return [
            f"{variant.name} under {self.places[at].worst(fault_set).method}"
            for fault_set in self.points
            if fault_set.how == "worst"
            for at, variant in enumerate(self.variants)
        ]

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides a trial.

        The number of trials is left out, so that it can be raised later.
        """
        scenarios = [_described(variant.scenario) for variant in self.variants]
        # Without `trials` and `precision`: a campaign may be continued with more of either.
        said = f"{scenarios}/{[fault_set.name for fault_set in self.points]}"
        return blake2b(said.encode(), digest_size=16).hexdigest()

    def set_count(self, point: int, variant: int) -> int | None:
        """Return the number of sets of a point; None if sets are drawn at random."""
        return set_count(self.points[point], self.places[variant])

    def numbers(self, point: int, variant: int) -> Sequence[int]:
        """Return the draws of a point in the order of runs, at most `trials`.

        If `all` has more sets, the draws are the numbers of a random sample of them.
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
            # A strategy without randomness has one set; a second run would be the same.
            return range(
                self.trials if count is None or self.is_random(fault_set, variant) else min(self.trials, count)
            )
        if not count:
            raise ScenarioError("faults", fault_set.name, "it needs more nodes or links than may fail")
        if count > max(self.trials, MOST_SAMPLED):
            enumerable = f", or give --trials {count} to run all of them" if count <= MOST_TRIALS else ""
            reason = f"it has more than {MOST_SAMPLED:,} sets; draw at random instead{enumerable}"
            raise ScenarioError("faults", fault_set.name, reason)
        return sample_numbers(fault_set, places, self.variants[variant].scenario.seed, self.trials)

    def wanted(self, point: int, variant: int) -> int:
        """Return the most draws of a point."""
        return len(self.numbers(point, variant))

    def whole(self, point: int, variant: int) -> bool:
        """Return whether the draws cover every set of the point.

        Then its figures are exact if nothing else is random.
        """
        return self.set_count(point, variant) == self.wanted(point, variant)

    def is_random(self, fault_set: FaultSetSpec, variant: int) -> bool:
        """Return whether the outcome of one set depends on the seed.

        Then figures over all sets are estimates too.
        """
        return self.variants[variant].is_random or any(part.is_random for part in fault_set.parts)

    def _seed_of(self, point: int, variant: int, number: int) -> int:
        """Return the seed of a trial.

        It is the scenario's seed, or a seed of its own if faults draw random numbers during the run.
        """
        own = self.is_random(self.points[point], variant)
        return self.own_seed(variant, number) if own else self.variants[variant].scenario.seed

    def own_seed(self, variant: int, number: int) -> int:
        """Return the seed of a trial where faults draw random numbers.

        Version 0.3.0 used it wherever faults have a value.
        """
        return (self.variants[variant].scenario.seed + number) % 2**63

    def counted(self, point: int, variant: int, finished: Collection[int]) -> Collection[int]:
        """Return the finished draws that enter the statistics.

        While sets of `all` are missing, only the random sample of sets enters.
        """
        if self.points[point].how != "all" or len(finished) == self.set_count(point, variant):
            return finished
        return set(finished).intersection(self.numbers(point, variant))

    def draws(self, point: int, variant: int) -> Draws:
        """Return the draws of a point, by number."""
        if (point, variant) not in self._draws:
            seed = self.variants[variant].scenario.seed
            self._draws[point, variant] = Draws(self.points[point], self.places[variant], seed)
        return self._draws[point, variant]

    @cached_property
    def _draws(self) -> dict[tuple[int, int], Draws]:
        return {}

    def fault_free_latency(self, variant: int) -> int | None:
        """Return the longest latency of a variant in a run without any fault; None if no node is served."""
        if variant not in self._fault_free:
            self._fault_free[variant] = fault_free_latency(self.variants[variant].scenario)
        return self._fault_free[variant]

    @cached_property
    def _fault_free(self) -> dict[int, int | None]:
        return {}

    # --- engines ------------------------------------------------------------------------------------------------------

    def exact(self, point: int, variant: int) -> bool:
        """Return whether the batch engine runs the trials of a point."""
        return self.why_messages(point, variant) is None

    def why_messages(self, point: int, variant: int) -> str | None:
        """Return why the trials of a point are run with messages, or None where the batch engine runs them."""
        key = point, variant
        if key not in self._reasons:
            self._reasons[key] = self._why_messages(point, variant)
        return self._reasons[key]

    def _why_messages(self, point: int, variant: int) -> str | None:
        if self.engine == "messages":
            return "messages were asked for"
        reason = why_messages(self.variants[variant].plan, self.points[point])
        wanted = self.wanted(point, variant)
        few = f"it has {wanted} trials, no more than a sample would have"
        if reason or self.engine == "exact":
            return reason or self._inexact(variant)
        # Before anything is run: even the smallest sample would have all trials.
        if wanted <= LEAST_SAMPLE:
            return few
        reason = self._inexact(variant)
        return reason or (few if wanted <= sample_size(self.batch_engine(variant)) else None)

    def _inexact(self, variant: int) -> str | None:
        try:
            self.batch_engine(variant)
        except InexactError as error:
            return str(error)
        return None

    def batch_engine(self, variant: int) -> BatchEngine:
        """Return the batch engine of a variant; raises InexactError."""
        known = self._engines.get(variant)
        if known is None:
            try:
                known = batch_engine_of(self.variants[variant].plan)
            except InexactError as error:
                known = error
            self._engines[variant] = known
        if isinstance(known, InexactError):
            raise known
        return known

    def point_engine(self, point: int, variant: int) -> PointEngine:
        """Return the engine of the draws of a point."""
        key = point, variant
        if key not in self._point_engines:
            plan = self.variants[variant].plan
            # Point and variant are bound here: within them the seed depends on the number of the draw alone.
            seed_of = partial(self._seed_of, point, variant)
            self._point_engines[key] = PointEngine(
                self.batch_engine(variant), plan, self.draws(point, variant), self.places[variant], seed_of
            )
        return self._point_engines[key]

    @cached_property
    def _engines(self) -> dict[int, BatchEngine | InexactError]:
        return {}

    @cached_property
    def _point_engines(self) -> dict[tuple[int, int], PointEngine]:
        return {}

    @cached_property
    def _reasons(self) -> dict[tuple[int, int], str | None]:
        return {}

    # --- trials with messages -----------------------------------------------------------------------------------------

    def rest(self, done: Done, again: Repeats = NO_REPEATS) -> Iterator[tuple[Key, Trial]]:
        """Yield the trials to run next with messages, given the finished ones.

        Nothing is left if the campaign is complete. `again` has the numbers of exactly evaluated trials that are to run
        once more. Trials are ordered by variant, so that networks can be reused.
        """
        targets = [self._target(point, done) for point in range(len(self.points))]
        for variant in range(len(self.variants)):
            for point, target in enumerate(targets):
                finished = done.get((point, variant), {})
                exact = self.exact(point, variant)
                to_run = again.get((point, variant), ()) if exact else self.numbers(point, variant)[:target]
                for number in to_run:
                    if number not in finished:
                        key = Key(point, variant, number)
                        yield key, self.trial(key)

    def trial(self, key: Key) -> Trial:
        """Return a trial by its key."""
        faults = self.draws(key.point, key.variant).specs(key.number)
        return Trial(key.variant, faults, self._seed_of(*key))

    def _target(self, point: int, done: Done) -> int:
        """Return the number of draws of a point after this round."""
        open_ended = [
            variant
            for variant in range(len(self.variants))
            if not self.whole(point, variant) and not self.exact(point, variant)
        ]
        # Variants with every set drawn, or run by the batch engine, ignore the precision.
        if self.precision is None or not open_ended:
            return self.trials
        finished = [(done.get((point, variant), {}), self.numbers(point, variant)) for variant in open_ended]
        # The precision is checked at multiples of CHUNK only, so that a resumed campaign stops at the same draw.
        # Draws finish in any order in a pool, so only the part without a gap decides.
        checked = min(_without_gap(numbers, served) for served, numbers in finished) // CHUNK * CHUNK
        narrow = checked and all(
            half_width(served[number] for number in numbers[:checked]) <= self.precision for served, numbers in finished
        )
        return checked if narrow else min(self.trials, checked + CHUNK)


def _places_of(plan: Plan) -> FaultSites:
    given, run_time = plan.scenario.fault, run_time_of(plan.scenario)
    return FaultSites(
        plan.algorithm,
        given,
        lambda fault_set, sites: worst_set(fault_set, sites, plan.scenario, given),
        None if run_time is None else partial(run_time, plan.algorithm),
    )


def _described(scenario: Scenario) -> dict[str, object]:
    """Return the values of a scenario that decide its trials.

    An option counts where its value is not the default. So a new option changes no fingerprint.
    """
    values = scenario.model_dump(mode="json", exclude=set(UNCOUNTED))
    options = options_of(type(scenario))
    values = {name: value for name, value in values.items() if getattr(scenario, name) != options[name].field.default}
    if scenario.plugin:  # wherever their files are
        values["plugin"] = sorted(plugin.sha256 for plugin in loaded_plugins(scenario.plugin, all_of_them=True))
    if scenario.message_bytes == DEFAULT_BYTES and scenario.collective not in VECTOR:
        del values["message_bytes"]  # as without the option
    topology = network_of(scenario)
    if isinstance(topology, TableTopology):  # wherever its file is
        values["topology"] = f"{topology.name} {topology.sha256}"
    return values


def _without_gap(order: Sequence[int], finished: Collection[int]) -> int:
    """Return the number of finished draws before the first unfinished one."""
    return next((at for at, number in enumerate(order) if number not in finished), len(order))

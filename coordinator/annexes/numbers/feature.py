"""Real numbers: ranks contribute arrays, and the order of every addition decides the bits of their sums."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from coordinator.annexes.numbers.options import NumberOptions
from coordinator.features.base import BrokenAssumption, Evidence, Feature, Findings, Metric, ResolvedRun
from coordinator.features.timing import largest_sent_bytes
from coordinator.scenario.model import DEFAULT_BYTES, MOST_BYTES, OnFailure, Scenario
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Assumption, Claim
from emunode.algorithms.registry import find_algorithm, make_algorithm, with_blocks
from emunode.annexes import load
from emunode.errors import ScenarioError
from emunode.faults.timeline import FaultTimeline
from emunode.model import (
    FOLDING,
    MOST_ELEMENTS,
    NUMBER_BYTES,
    CollectiveSpec,
    NumberSource,
    NumberType,
    RealNumbers,
    Rounding,
)
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    from coordinator.annexes.numbers.orders import FoldTrees
    from coordinator.annexes.numbers.price import Price

PROBE: Final = "probe"
MOST_PROBED: Final = 24
"""Ranks of a probe at most: of more, the small numbers together would no longer be swallowed by the large one."""
MOST_CERTIFIED: Final = 4000
"""Most parts of results at ranks whose trees are found for the claims of a run: a second of work."""


class NumberFeature(Feature):
    """Real numbers as contributions."""

    name = "numbers"
    metrics = frozenset(
        {
            "distinct_results",
            "distinct_trees",
            "missing_elements",
            "worst_error_units",
            "mean_error_units",
            "tree_depth",
            "trees_per_element",
            "partial_result_bytes",
            "held_bytes",
            "probe_contradictions",
        }
    )

    def is_active(self, spec: CollectiveSpec) -> bool:
        return spec.numbers is not None

    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        options = NumberOptions.of(scenario)
        if options.values is None:
            return spec
        _require_reduction(scenario, options)
        kind, is_probe = _type_of(options.values)
        numbers = RealNumbers(
            kind,
            Rounding(options.rounding or Rounding.EACH),
            NumberSource.PROBE if is_probe else NumberSource.GENERATED,
            fixed_order=options.fixed_order,
            leaves=_leaves(options, topology),
        )
        if options.data is not None:
            numbers = _with_data(numbers, options.data, topology)
        elements = _elements(scenario, topology, spec, numbers)
        whole = spec._replace(numbers=numbers, message_bytes=elements * numbers.sent_bytes, blocks=1, short_blocks=0)
        return with_blocks(find_algorithm(topology, whole), topology, whole)

    def require(self, scenario: Scenario, algorithm: Algorithm) -> None:
        if algorithm.spec.numbers is None:
            return
        options = NumberOptions.of(scenario)
        if not algorithm.traits.adds_numbers:
            raise ScenarioError("values", options.values, f"{algorithm.name} folds in no fixed order")
        if scenario.on_failure is OnFailure.SHRINK:
            raise ScenarioError(
                "on_failure", str(scenario.on_failure), "a repetition folds bytes only; leave --values out"
            )

        if options.fixed_order:
            if not algorithm.traits.states_order:
                raise ScenarioError(
                    "fixed_order", options.fixed_order, f"{algorithm.name} adds by itself; leave it out"
                )
            _require_small_packets(algorithm)

    # --- claims

    def unproven(self, claims: Sequence[Claim], metrics: Mapping[str, Metric], spec: CollectiveSpec) -> str | None:
        judged = any(claim.name == "worst_error_units" for claim in claims)
        if not judged or "worst_error_units" in metrics or metrics.get("missing_elements"):
            return None
        assert spec.numbers is not None
        return f"no number for worst error units: a sum is beyond the largest {spec.numbers.type}"

    def broken(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[BrokenAssumption]:
        del timeline
        if run.spec.numbers is not None and run.spec.numbers.fixed_order:
            why = "in the fixed order partial results travel in parts"
            yield BrokenAssumption(Assumption.ONE_SUM, why, bounds_hold=True)

    def claims(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[Claim]:
        # A result that lost a contribution is judged as lost, and not by its bits.
        if timeline and not _nothing_lost(run):
            return
        numbers = run.spec.numbers
        assert numbers is not None
        if numbers.source is NumberSource.PROBE:
            yield Claim("probe_contradictions", 0, "==", "the order of the additions, read from results alone")
        trees = trees_of(run.algorithm)
        if trees is None:
            if not run.algorithm.traits.states_order:
                yield from _claims_on_results(run, numbers)
            return
        rule = "order by scheduled step, then rank of origin"
        if trees.trees_per_element == 1:
            yield Claim("distinct_results", 1, "==", f"{rule}: equal trees at all ranks", derived=True)
        else:
            # A claim on trees: these values may be equal by luck.
            yield Claim(
                "trees_per_element", 1, "==", f"all ranks are to have the same bits, but {_unequal(run, trees)}"
            )
        if numbers.source is not NumberSource.PROBE:
            bound = error_bound(trees.depth, numbers)
            yield Claim("worst_error_units", bound, "<=", f"Higham 2002, ch. 4: trees of depth {trees.depth}")
        # Packets that are sent again, or not at all, have a price of their own.
        price = price_of(run.algorithm) if numbers.fixed_order else None
        if price is not None and not timeline and run.spec.reliable is None:
            yield Claim("partial_result_bytes", price.on_links, "==", price.text, derived=True)
            yield Claim("held_bytes", price.held, "==", "fixed order: parts wait for their other halves", derived=True)

    def measure(self, run: ResolvedRun, evidence: Evidence) -> Findings:
        if evidence.results is None:
            return Findings()
        from coordinator.annexes.numbers.findings import findings  # noqa: PLC0415  # numpy starts threads

        return findings(run, evidence, evidence.results, trees_of(run.algorithm), lost=not _nothing_lost(run))


def _claims_on_results(run: ResolvedRun, numbers: RealNumbers) -> Iterator[Claim]:
    """Yield the claims on an algorithm that adds by itself: any order is right, if all ranks have the same one."""
    yield Claim("missing_elements", 0, "==", "every rank states its result")
    if numbers.source is NumberSource.PROBE:
        yield Claim("trees_per_element", 1, "==", "all ranks are to have the same bits, by the trees of their results")
        return
    yield Claim("distinct_results", 1, "==", "all ranks are to have the same bits")
    depth = len(numbers.contributions(run.topology.data_ranks)) - 1
    yield Claim(
        "worst_error_units", error_bound(depth, numbers), "<=", f"Higham 2002, ch. 4: at most {depth} additions"
    )


def _unequal(run: ResolvedRun, trees: "FoldTrees") -> str:
    from coordinator.annexes.numbers.bit_claims import first_unequal_ranks  # noqa: PLC0415  # it imports numpy

    found = first_unequal_ranks(run.algorithm, trees)
    return "" if found is None else found.describe(run.topology.label)


def _nothing_lost(run: ResolvedRun) -> bool:
    """Return whether every contribution is to be in every result, whatever the faults."""
    return not run.judged.harmful_faults or run.spec.reliable is not None


def trees_of(algorithm: Algorithm) -> "FoldTrees | None":
    """Return the fold trees of an algorithm; None for a run with too many, or if the algorithm does not state them."""
    if not algorithm.traits.states_order:
        return None
    blocks = len(algorithm.block_owners) * algorithm.spec.messages * algorithm.segments_per_message
    if blocks * algorithm.topology.order > MOST_CERTIFIED:
        return None
    # Claims, metrics and statements ask for the same trees.
    if "fold_trees" not in algorithm.__dict__:
        algorithm.__dict__["fold_trees"] = load("coordinator.annexes.numbers.orders:fold_trees")(algorithm)
    found: FoldTrees = algorithm.__dict__["fold_trees"]
    return found


def price_of(algorithm: Algorithm) -> "Price | None":
    """Return the price of an order of additions; None for a run with too many trees."""
    trees = trees_of(algorithm)
    if trees is None:
        return None
    price: Price = load("coordinator.annexes.numbers.price:make_price")(algorithm, trees)
    return price


def _require_small_packets(algorithm: Algorithm) -> None:
    """Refuse the fixed order where a packet would be longer than any message may be."""
    price = price_of(algorithm)
    if price is not None:
        largest = price.largest_packet
    else:
        segments = algorithm.spec.messages * algorithm.segments_per_message * len(algorithm.block_owners)
        largest = segments * largest_sent_bytes(algorithm)
    if largest > MOST_BYTES:
        allowed = f"packets of at most {MOST_BYTES:,} bytes, and in the fixed order one has up to {largest:,}"
        raise ScenarioError("message_bytes", algorithm.spec.contributed_bytes, allowed)


def error_bound(depth: int, numbers: RealNumbers) -> float:
    """Return the largest error of a sum of this depth, in units u sum|x| of the type of its contributions."""
    bits = {NumberType.FLOAT64: 53, NumberType.FLOAT32: 24, NumberType.BFLOAT16: 8, NumberType.FLOAT16: 11}
    u = 2.0 ** -bits[numbers.type]
    if numbers.rounding is Rounding.EACH:
        return depth / (1 - depth * u)
    # All additions in float32, and one rounding of a sum that is by as much larger than the exact one.
    single = depth * 2.0**-24 / (1 - depth * 2.0**-24)
    return 1 + single + single / u


def _type_of(values: str) -> tuple[NumberType, bool]:
    """Return the type of numbers that the option `values` names, and whether they are a probe."""
    is_probe = values.startswith(PROBE)
    name = values.removeprefix(PROBE).removeprefix("-") or NumberType.FLOAT32
    return NumberType(name), is_probe


def _require_reduction(scenario: Scenario, options: NumberOptions) -> None:
    """Raise ScenarioError for options that contradict each other, or a collective that adds nothing."""
    if scenario.collective not in FOLDING:
        allowed = "only reduce, allreduce and reduce-scatter add numbers"
        raise ScenarioError("values", options.values, f"{allowed}, not {scenario.collective}; leave it out")
    assert options.values is not None
    kind, is_probe = _type_of(options.values)
    if options.rounding == "end" and kind not in (NumberType.BFLOAT16, NumberType.FLOAT16):
        raise ScenarioError("rounding", options.rounding, f"only bfloat16 and float16 have it, not {options.values}")
    if options.data is not None and is_probe:
        raise ScenarioError("data", options.data, "a probe has numbers of its own; leave one of them out")


def _elements(scenario: Scenario, topology: Topology, spec: CollectiveSpec, numbers: RealNumbers) -> int:
    """Return the elements that a rank contributes to each message; ScenarioError if there can be none or too many."""
    size, ranks = NUMBER_BYTES[numbers.type], len(topology.data_ranks)
    leaves = len(numbers.contributions(topology.data_ranks))
    given = scenario.message_bytes
    if given is not None and given % size:
        raise ScenarioError("message_bytes", given, f"a multiple of {size}, the bytes of one {numbers.type}")
    expected: int | None = None
    if numbers.source is NumberSource.PROBE:
        if not 2 <= leaves <= MOST_PROBED:
            of = f"{leaves} leaves" if numbers.leaves else str(ranks)
            raise ScenarioError(
                "values", numbers.option, f"networks of 2 to {MOST_PROBED} nodes that own data, not {of}"
            )
        expected = _probe_elements(topology, spec, numbers, leaves * (leaves - 1) // 2)
    elif numbers.source is NumberSource.DATA:
        columns = len(numbers.data) // (leaves * size)
        expected, rest = divmod(columns, scenario.messages)
        if rest:
            raise ScenarioError("messages", scenario.messages, f"a divisor of the {columns} elements of a rank")
    if expected is None:
        elements = (given or max(DEFAULT_BYTES * ranks, DEFAULT_BYTES)) // size
    else:
        elements = expected
        if given is not None and given != expected * size:
            raise ScenarioError("message_bytes", given, f"{expected * size}, for {expected} elements; leave it out")
    if elements * numbers.sent_bytes > MOST_BYTES:
        raise ScenarioError("message_bytes", elements * numbers.sent_bytes, f"at most {MOST_BYTES} as they are sent")
    if elements * scenario.messages > MOST_ELEMENTS:
        raise ScenarioError(
            "messages", scenario.messages, f"at most {MOST_ELEMENTS} elements of a rank over all messages"
        )
    return elements


def _probe_elements(topology: Topology, spec: CollectiveSpec, numbers: RealNumbers, pairs: int) -> int:
    """Return the elements of a vector whose every segment has an element for each pair of ranks."""
    # How an algorithm cuts blocks does not depend on their size, if they are large enough to be cut.
    large = spec._replace(numbers=numbers, message_bytes=MOST_BYTES // 8 * 8, blocks=1, short_blocks=0)
    entry = find_algorithm(topology, large)
    large = with_blocks(entry, topology, large)
    return make_algorithm(topology, large).segments_per_message * large.blocks * pairs


def _leaves(options: NumberOptions, topology: Topology) -> int:
    """Return the number of contributions where nodes share them, else 0; ScenarioError if it leaves a node without one."""
    ranks = len(topology.data_ranks)
    if options.leaves is not None and options.leaves < ranks:
        raise ScenarioError("leaves", options.leaves, f"at least {ranks} on {topology.name}: one for each node")
    return options.leaves or 0


def _with_data(numbers: RealNumbers, path: str, topology: Topology) -> RealNumbers:
    """Return `numbers` with the contributions of a file."""
    from coordinator.annexes.numbers.files import read_contributions  # noqa: PLC0415  # it imports numpy

    rows = len(numbers.contributions(topology.data_ranks))
    data = read_contributions(path, numbers.type, rows, "contribution" if numbers.leaves else "node")
    return numbers._replace(source=NumberSource.DATA, data=data)

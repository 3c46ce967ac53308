"""Claims: predictions of a paper or a formula about a run, and the metrics that they can name."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Final, Literal, get_args

Value = int | float | tuple[int, ...]
Relation = Literal["==", "<=", ">="]
"""Read "measured relation predicted"."""

TRAFFIC: Final = (
    "steps", "packets", "segments", "bytes", "max_link_segments", "max_link_segments_per_step", "links_used",
    "heaviest_link_segments_per_step", "heaviest_link_bytes_per_step", "startups", "transfer_bytes", "virtual_seconds",
    "senders_per_step", "receivers_per_step", "average_receive_step",
)  # fmt: skip
"""Traffic and its time."""
IN_BYTES: Final = ("bytes", "heaviest_link_bytes_per_step", "transfer_bytes", "virtual_seconds")
"""Metrics of the traffic that depend on the sizes of segments, with and without a packet limit."""
DELIVERY: Final = (
    "expected_deliveries", "deliveries", "intact_deliveries", "delivery_ratio", "duplicates", "relays", "lost", "corrupt",
    "elected_right", "elected_wrong", "elected_none", "miscounted_results", "least_contributions",
)  # fmt: skip
"""Arrivals, and results of votes on copies."""
STRUCTURE: Final = (
    "longest_detour", "trees_per_arc", "trees_per_link", "paths_per_inner_node", "same_type_per_step",
    "segments_per_message", "largest_subtree", "smallest_subtree", "outside_own_substar", "off_displacement",
    "off_period", "inner_home_nodes", "unrotated_arcs",
)  # fmt: skip
"""The paths that messages took."""
PROTOCOL: Final = (
    "acknowledgements", "lost_acknowledgements", "retransmissions", "discarded_copies", "abandoned_segments",
)  # fmt: skip
"""Traffic of reliable links beyond the first copy of every segment."""
REPAIR: Final = (
    "repair_requests", "lost_requests", "repairs", "repairs_per_step", "repair_links", "recovery_steps",
    "recovery_seconds", "extra_segments",
)  # fmt: skip
"""Repair of losses by faults, and its cost."""
DETECTION: Final = (
    "detections", "mean_detection_steps", "slowest_detection_steps", "false_suspicions", "wrong_ports",
    "withheld_packets", "needlessly_withheld_packets", "mean_detection_seconds", "slowest_detection_seconds",
    "keep_alives", "lost_keep_alives",
)  # fmt: skip
"""Faults that nodes detected by silence, and the errors of the detectors."""
AGREEMENT: Final = (
    "decisions", "slowest_agreement_steps", "slowest_agreement_seconds", "agreement_packets", "lost_agreement_packets",
    "agreement_errors",
    "revised_decisions", "given_up_links", "excluded_nodes", "root_failed_nodes", "repetitions", "repetition_order",
    "repetition_steps", "repetition_packets", "repetition_segments", "repetition_bytes", "repetition_seconds",
    "final_delivery_ratio",
)  # fmt: skip
"""Agreement on failures, and the last repetition of the collective on what they left."""
LIVENESS: Final = ("waiting_nodes", "settling_steps", "settling_seconds")
"""The end of a run whose faults are over."""
EMULATOR: Final = (
    "illegal_hops", "replay_mismatches", "intended_seconds", "completion_seconds", "early_hops", "lateness_ratio",
    "worst_lateness_packets",
)  # fmt: skip
"""Conformance of the emulator to its model, and its punctuality under the timed clock."""
METRICS: Final = frozenset(
    (*TRAFFIC, *DELIVERY, *STRUCTURE, *PROTOCOL, *REPAIR, *DETECTION, *AGREEMENT, *LIVENESS, *EMULATOR, "measured")
)
"""Every name that a claim can have; `measured` stands for a number that a paper prints and a reproduction measures."""
FURTHER_METRICS: Final[list[Collection[str]]] = []
"""Collections of the names that features of the coordinator and metrics of one's own add."""


def is_metric(name: str) -> bool:
    """Return whether a claim can have this name."""
    return name in METRICS or any(name in names for names in FURTHER_METRICS)


class Assumption(StrEnum):
    """The conditions that a claim may depend on, in words. A claim is dropped from a run that breaks one."""

    NO_FAULTS = "no fault loses, alters or delays packets"
    ON_TIME = "no fault makes packets late"
    STEPS_KEPT = "packets keep the steps of the schedule"
    SENT_ONCE = "no segment is sent again or by another way"
    NOTHING_OVERDUE = "no node asks for what is late"
    NO_WRONG_SUSPICION = "no live neighbour is suspected"
    EVERY_ATTEMPT = "no suspicion withholds an attempt"
    ONE_SUM = "a partial result travels as one sum"


COUNTED_ONCE: Final = frozenset(DELIVERY) - {"duplicates", "relays"}
"""Metrics of arrivals that count no copies of segments: these hold whatever is sent again."""
UNTIMED: Final = frozenset((*DELIVERY, *STRUCTURE, "segments", "bytes", "max_link_segments", "links_used")) - {
    "same_type_per_step"
}
"""Metrics of a run without faults that do not depend on the steps when segments leave."""


def usual_assumptions(name: str) -> frozenset[Assumption]:
    """Return the assumptions of a claim about a metric, unless it states its own."""
    found = {Assumption.NO_WRONG_SUSPICION}
    if name != "intact_deliveries":
        found.add(Assumption.NOTHING_OVERDUE)
    if name not in COUNTED_ONCE:
        found.add(Assumption.SENT_ONCE)
    if name not in UNTIMED:
        found.add(Assumption.STEPS_KEPT)
    if name in IN_BYTES or name == "startups":
        found.add(Assumption.ONE_SUM)
    return frozenset(found)


class UnknownMetricError(ValueError):
    """A claim about a metric that nothing measures."""


def distinct(claims: Iterable["Claim"]) -> list["Claim"]:
    """Keep one of several claims that say the same: the last one, whose source is the most specific; a proven one first."""
    found: dict[tuple[str, Relation, Value], Claim] = {}
    for claim in claims:
        key = claim.name, claim.relation, claim.predicted
        if key not in found or claim.proof or not found[key].proof:
            found[key] = claim
    return list(found.values())


def of_uneven_blocks(claims: Iterable["Claim"], *, packet_limit: int) -> Iterator["Claim"]:
    """Yield the claims of an algorithm that counts every block as long as the longest, where some are one byte shorter.

    Exact figures in bytes become upper bounds. Lower bounds and lists in bytes are left out.
    """
    for claim in claims:
        in_bytes = claim.name in IN_BYTES or (claim.name == "startups" and packet_limit > 0)
        if not in_bytes:
            yield claim
        elif claim.relation != ">=" and not isinstance(claim.predicted, tuple):
            yield replace(
                claim, relation="<=", source=f"{claim.source}; shorter blocks are counted as long as the longest"
            )


def lower_bound(name: str, predicted: float, proof: str, condition: str = "") -> "Claim":
    """Return the claim that no algorithm measures less, by `proof`; `condition` limits it to some algorithms."""
    return Claim(
        name, predicted, ">=", f"{proof}, for {condition}" if condition else proof, proof=proof, condition=condition
    )


def best_bound(claims: Iterable["Claim"], metric: str) -> "Claim | None":
    """Return the claim with the largest lower bound of every algorithm on a metric; None without one."""
    stated = [claim for claim in claims if claim.name == metric and claim.bound is not None]
    return max(stated, key=lambda claim: claim.bound or 0, default=None)


def sharpest(claims: Iterable["Claim"], metric: str) -> "Claim | None":
    """Return the claim with the largest proven lower bound on a metric, whatever its condition; None without one."""
    proven = (claim for claim in claims if claim.name == metric and claim.relation == ">=" and claim.proof)
    return max(proven, key=lambda claim: claim.predicted, default=None)


def stated_bound(claims: Iterable["Claim"], metric: str) -> tuple[int | float | None, str]:
    """Return the lower bound of every algorithm on a metric, and the reasons in words.

    What binds algorithms under a condition only, such as packets of one segment, is a sentence of the reasons.
    """
    claims = list(claims)
    found, sharp = best_bound(claims, metric), sharpest(claims, metric)
    reasons = [found.source] if found and not found.condition else []
    reasons += [sharp.sentence] if sharp and sharp.condition else []
    return None if found is None else found.bound, "; ".join(reasons)


ONE_SEGMENT: Final = "packets of one segment"


def one_segment(per_message: int) -> str:
    """Return the condition of lower bounds on steps that count segments."""
    cut = cut_into(per_message)
    return f"{ONE_SEGMENT} and {cut}" if cut else ONE_SEGMENT


def cut_into(per_message: int) -> str:
    """Return the condition of lower bounds on transmissions that count segments; empty for uncut messages."""
    return f"{per_message} segments of a message" if per_message > 1 else ""


@dataclass(frozen=True, slots=True)
class Claim:
    """One prediction: metric `name` of a run stands in `relation` to `predicted`, according to `source`.

    Raises UnknownMetricError for a name that is not in `METRICS`: a misspelt claim would never be judged.

    >>> claim = Claim("steps", 4, "==", "height of the tree")
    >>> claim.name, claim.relation, claim.predicted
    ('steps', '==', 4)
    """

    name: str
    predicted: Value
    relation: Relation
    source: str
    derived: bool = False
    """True if the prediction is computed from the trees or the timetable that the run itself executes.

    Such a claim checks the engines against the schedule; it cannot find an error in the schedule.
    docs/explanation/claims.md lists them.
    """
    proof: str = ""
    """The reason why no algorithm with the same job measures less than `predicted`.

    Without it, a claim with >= is about this algorithm only: the lower end of a range, or a promise.
    """
    condition: str = ""
    """The algorithms that the proof is limited to, such as `packets of one segment`; empty: it binds all."""
    unconditional: int | float | None = None
    """Under a condition, the lower bound that is left for all algorithms, if one is known."""
    assumes: frozenset[Assumption] | None = None
    """The conditions of the claim; None: the usual ones of its metric (`usual_assumptions`)."""

    @property
    def assumptions(self) -> frozenset[Assumption]:
        """The conditions of the claim."""
        return usual_assumptions(self.name) if self.assumes is None else self.assumes

    @property
    def bound(self) -> int | float | None:
        """The lower bound of every algorithm with the same job, however it cuts messages; None if it states none."""
        if self.relation != ">=" or not self.proof or isinstance(self.predicted, tuple):
            return None
        return self.unconditional if self.condition else self.predicted

    @property
    def is_vacuous(self) -> bool:
        """Whether it is true of every run: no metric of a run is negative, except the segments that a repair saves."""
        return self.relation == ">=" and self.predicted == 0 and self.name in METRICS - {"extra_segments"}

    @property
    def sentence(self) -> str:
        """The bound of the algorithms that a condition names, in words; empty without a condition."""
        return f"{self.name} for {self.condition}: at least {self.predicted} ({self.proof})" if self.condition else ""

    def __post_init__(self) -> None:
        if not is_metric(self.name):
            known = sorted(METRICS.union(*FURTHER_METRICS))
            near = " or ".join(map(repr, get_close_matches(self.name, known)))
            hint = f"did you mean {near}?" if near else f"known metrics: {', '.join(known)}"
            raise UnknownMetricError(f"a claim about an unknown metric {self.name!r}: {hint}")
        if self.relation not in get_args(Relation):
            raise ValueError(f"a claim with an unknown relation {self.relation!r}: expected ==, <= or >=")

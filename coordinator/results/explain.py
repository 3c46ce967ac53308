"""Where two histories part, and what a state depends on, in words.

A state of a node is what it has received. `explain` walks back from there over the hops of the journal: a hop depends on the
receipts of its sender that it passes on or folds, and hops that were lost depend on the faults at their ends and links.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from coordinator.features.journals.rows import SEGMENT
from coordinator.history.journal import COLUMNS
from coordinator.planning.plan import Plan
from emunode.errors import ScenarioError
from emunode.faults.kinds import stated_effects
from emunode.model import ALL_RANKS, FOLDING, Rank, Step

LISTED: Final = 40
"""Most hops that an explanation lists."""
KNOWN: Final = 3
"""Most receipts that are listed of a node."""
HopRow = Mapping[str, Any]


def hop_words(row: HopRow, label: Callable[[Rank], str]) -> str:
    """Return a hop in words."""
    target = "" if row["target"] in (ALL_RANKS, row["receiver"]) else f" for {label(row['target'])}"
    return (
        f"step {row['step']}, {label(row['sender'])} to {label(row['receiver'])}: segment {row['segment']} of "
        f"{label(row['origin'])}{target} on tree {row['tree']}, {row['bytes']} bytes, {row['outcome']}"
    )


def knowledge(journal: pl.LazyFrame, rank: Rank, step: Step, label: Callable[[Rank], str]) -> str:
    """Return in words what a node had received when a step began."""
    arrived = (
        journal.filter(pl.col("receiver") == rank, pl.col("step") < step, pl.col("outcome") != "lost")
        .select("step", "sender", "origin", "segment", "tree")
        .collect()
    )
    shown = [
        f"segment {segment} of {label(origin)} on tree {tree} (step {when}, from {label(sender)})"
        for when, sender, origin, segment, tree in arrived.tail(KNOWN).iter_rows()
    ]
    more = f"{len(arrived)} segments, last " if len(arrived) > KNOWN else ""
    return f"{label(rank)} had {more}{', '.join(shown) or 'received nothing'}"


def parting(rows: Sequence[HopRow | None], journal: pl.LazyFrame, label: Callable[[Rank], str]) -> dict[str, object]:
    """Return where two histories part: the rows, and what the nodes of these rows knew; `journal` is either of them.

    All rows before are equal, so nodes knew the same in both when the step began.
    """
    present = [row for row in rows if row is not None]
    step = min(int(row["step"]) for row in present)
    ranks = dict.fromkeys(int(row[end]) for row in present if row["step"] == step for end in ("sender", "receiver"))
    return {
        "step": step,
        "rows": [None if row is None else hop_words(row, label) for row in rows],
        "known": [knowledge(journal, rank, step, label) for rank in ranks],
    }


def place_of(plan: Plan, text: str) -> tuple[Rank, Step]:
    """Return the rank and the step of NODE@STEP; ScenarioError (field `explain`) for anything else."""
    name, _, step = text.rpartition("@")
    if not name or not step.isascii() or not step.isdigit() or not 0 < int(step) < 2**31:
        raise ScenarioError("explain", text, "expected NODE@STEP, such as 2134@3")
    try:
        return plan.topology.rank(name), int(step)
    except ScenarioError as error:
        raise ScenarioError("explain", text, f"there is no node {name!r}: {error.allowed}") from None


def explain(plan: Plan, journal: pl.DataFrame, rank: Rank, step: Step) -> list[str]:
    """Return lines about the receipts of `rank` before `step`: all hops that they depend on, and the faults that cost hops.

    Rows of protocols count as hops of their own segments.
    """
    label = plan.topology.label
    rows: list[HopRow] = list(
        journal.filter(pl.col("step") < step, pl.col("outcome") != "report").iter_rows(named=True)
    )
    by_receiver: dict[Rank, list[HopRow]] = defaultdict(list)
    for row in rows:
        by_receiver[row["receiver"]].append(row)
    needed: dict[int, HopRow] = {}
    left: list[HopRow] = [row for row in by_receiver[rank] if row["outcome"] != "lost"]
    while left:
        row = left.pop()
        if id(row) not in needed:
            needed[id(row)] = row
            left += _causes(plan, row, by_receiver[row["sender"]])
    hops = sorted(needed.values(), key=lambda row: tuple(row[name] for name in COLUMNS[:3]))
    ranks = {rank, *(row["sender"] for row in hops)}
    lost = [row for row in rows if row["outcome"] in ("lost", "withheld") and row["receiver"] in ranks]
    lines = [f"{label(rank)} at the beginning of step {step} depends on {_count(len(hops), 'hop')}"]
    lines += _listed(f"  {hop_words(row, label)}" for row in hops)
    if lost:
        lines.append(f"{_count(len(lost), 'hop')} to these nodes {'was' if len(lost) == 1 else 'were'} lost:")
        lines += _listed(f"  {hop_words(row, label)}: {_blamed(plan, row)}" for row in lost)
    return lines


def _causes(plan: Plan, row: HopRow, received: Iterable[HopRow]) -> list[HopRow]:
    """Return the receipts of its sender that a hop depends on."""
    before = [each for each in received if each["step"] < row["step"] and each["outcome"] != "lost"]
    if plan.spec.collective in FOLDING and row["target"] != ALL_RANKS:
        # A partial result has every contribution to the same block that came before.
        whole = len(plan.algorithm.block_owners) == 1
        same = [each for each in before if each["segment"] == row["segment"] and each["target"] != ALL_RANKS]
        return [each for each in same if whole or each["target"] == row["target"]]
    if plan.spec.collective in FOLDING and row["sender"] == row["origin"]:
        return [each for each in before if each["segment"] == row["segment"] and each["target"] != ALL_RANKS]
    if row["sender"] == row["origin"]:
        return []
    same = [each for each in before if all(each[name] == row[name] for name in SEGMENT)]
    # The copy on the same tree, or where an algorithm changes trees, the first one.
    copies = [each for each in same if each["tree"] == row["tree"]] or same
    return sorted(copies, key=lambda each: int(each["step"]))[:1]


def _blamed(plan: Plan, row: HopRow) -> str:
    """Return the faults, as the scenario states them, that are in force where a hop was lost."""
    places, step = (row["sender"], row["receiver"], (row["sender"], row["port"])), row["step"]
    spells = (spell for place in places for spell in plan.judged.timeline.spells.get(place, ()))
    texts = {spell.fault.text for spell in spells if step in spell.interval}
    # A kind that does not state its effects may have lost it.
    opaque = (each for each in plan.faults if each.place in places and stated_effects(each) is None)
    texts |= {each.text for each in opaque if step in each.interval}
    blamed = ", ".join(text for text in plan.faults_by_text if text in texts)
    return blamed or ("withheld by a detector" if row["outcome"] == "withheld" else "a fault that has ended")


def _listed(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    more = [f"  .. and {len(every) - LISTED} more"] if len(every) > LISTED else []
    return [*every[:LISTED], *more]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

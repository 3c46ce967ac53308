"""A verified certificate in words: the claim, or the counterexample."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final

from coordinator.annexes.proofs.subject import Subject
from coordinator.scenario.fault_sets import SHORT, FaultSetSpec, counts_in_words
from emunode.model import Collective

SYMBOL: Final = re.compile(r"\b[A-Z]\w*_\S+$")
MOST_LISTED: Final = 6


def statement(subject: Subject, levels: Sequence[tuple[Mapping[str, Any], FaultSetSpec]]) -> str:
    """Return the claim of a certificate, such as `holds: S_4 edt x=3, nodes <= 2: broadcast, 277 sets of faults`."""
    data, plan = subject.data, subject.plan
    symbol = SYMBOL.search(plan.topology.title)
    network = symbol[0] if symbol else plan.topology.name
    about = f"{network} {plan.spec.algorithm} x={plan.spec.redundancy}, {_sets(levels)}"
    if plan.scenario.fault:
        about += f" beside {', '.join(plan.scenario.fault)}"
    collective = "" if plan.spec.collective is Collective.BROADCAST else f"{plan.spec.collective}, "
    total = sum(level["sets"] for level, _ in levels)
    words = f"{data['verdict']}: {about}: {collective}{total:,} {'set' if total == 1 else 'sets'} of faults"
    found = data["counterexample"]
    if found is not None:
        missing = found["unserved"]
        what = (
            f"{_listed(missing)} {'misses' if len(missing) == 1 else 'miss'} a message" if missing else "a claim fails"
        )
        words += f"; violated by {', '.join(found['faults']) or 'the scenario itself'}: {what}"
    elif "different" in data:
        words += f"; two drivers differ under {', '.join(data['different']['faults']) or 'no further faults'}"
    return words + "".join(f"; {each}" for each in map(_smallest, data["threats"]) if each)


def _listed(labels: Sequence[str]) -> str:
    more = len(labels) - MOST_LISTED
    return ", ".join(labels[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _sets(levels: Sequence[tuple[Mapping[str, Any], FaultSetSpec]]) -> str:
    """Return the fault sets of all levels, with sets of the same kinds together."""
    groups: dict[tuple[tuple[str, ...], str], list[tuple[int, ...]]] = {}
    for _, fault_set in levels:
        key = tuple(_kind(part.kind) + part.argument for part in fault_set.parts), fault_set.when
        groups.setdefault(key, []).append(tuple(part.count for part in fault_set.parts))
    return " and ".join(_group(kinds, set(counts)) + _when(when) for (kinds, when), counts in groups.items())


def _kind(kind: str) -> str:
    names = {fault: short for short, fault in SHORT.items()}
    return names.get(kind, kind)


def _group(kinds: Sequence[str], counts: set[tuple[int, ...]]) -> str:
    """Return the numbers of faults of some kinds: all up to a number where that is so."""
    if not kinds:
        return "no further faults"
    most = [max(each) for each in zip(*counts, strict=True)]
    box = set(product(*(range(number + 1) for number in most))) if len(counts) <= 10_000 else set()
    if counts == box:
        return "; ".join(f"{kind} <= {number}" for kind, number in zip(kinds, most, strict=True))
    together = max(map(sum, counts))
    if counts == {each for each in box if sum(each) <= together}:
        return f"{' + '.join(kinds)} <= {together}"
    shown = sorted(counts)[:MOST_LISTED]
    words = " or ".join(
        ";".join(f"{kind}={number}" for kind, number in zip(kinds, each, strict=True)) for each in shown
    )
    return words + (f" or {len(counts) - len(shown)} more" if len(counts) > len(shown) else "")


def _when(when: str) -> str:
    return "" if when == "1" else f" in steps {when}" if "-" in when else f" from step {when}"


def _smallest(threat: Mapping[str, Any]) -> str | None:
    """Return the kinds of a smallest set that defeats a message, where several kinds are mixed."""
    cuts = [each["cut"] for each in threat["classes"] if each["cut"] is not None]
    if len(threat["kinds"]) < 2 or not cuts:
        return None
    kinds = Counter(spec.partition(":")[0] for spec in min(cuts, key=len))
    return f"a smallest set that defeats a message has {counts_in_words(kinds)}"

"""The metrics of `summary.json`: key, meaning from the glossary, and the algorithms that make a claim about it."""

import re
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, Final

from coordinator.planning.claims import run_claims
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import OPTIONS, make_scenario
from reference_pages.markdown import command_json, page, table

GLOSSARY: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "glossary.md"
RUNS: Final = (
    "star:3 broadcast flood --driver local --ranks-per-host 6",
    "star:3 broadcast flood --driver memory --clock timed",
    "star:3 broadcast edt --driver memory --redundancy 2 --fault byzantine:213",
    "star:3 broadcast edt --driver memory --fault crash:213@1",
    "star:3 reduce edt --driver memory --fault crash:123@1",
    "star:3 reduce edt --driver memory --fault crash:213@1",
    "star:3 broadcast flood --driver memory --fault crash:213@90",
    "star:3 broadcast edt --driver memory --fault worst:nodes=1",
    "star:3 broadcast greedy-tree --driver memory --fault crash:213@1 --repair next-port",
    "star:3 broadcast flood --driver memory --fault crash:213@1 --fault-knowledge detect:1 --on-failure shrink",
)
"""Scenarios whose summaries together have every key."""
MESSAGES: Final = {"replicated-balanced-tree": 3}
"""Numbers of messages for the algorithms that do not take one message."""
EXAMPLES: Final = {"star": "star:4", "hypercube": "hypercube:4", "ej": "ej:2+3", "any": "complete:8"}
"""A small network of each family; for algorithms for any network, one with all links."""


def metrics_page() -> str:
    """Return keys of `summary.json` in two tables: metrics, and what only some runs have."""
    meanings, claimed, present = glossary_terms(), claims_by_metric(), summary_types()
    known = sorted((present | dict.fromkeys(claimed, "number")).items())
    rows = [
        (f"`{key}`", kind, meanings.get(key.replace("_", " ")), ", ".join(sorted(claimed.get(key, ()))))
        for key, kind in known
    ]
    introduction = (
        "`summary.json` has these keys besides the keys of the [scenario](scenario.md). Metrics without a type here are "
        "measured only if the algorithm makes a claim about them. The last column names the algorithms that do."
    )
    return page("Metrics of summary.json", introduction, table(("key", "type", "meaning", "claimed by"), rows))


def glossary_terms() -> dict[str, str]:
    """Return the meaning by term: of equal terms the first, about a run; terms of one row share its meaning."""
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    terms = [(term.strip(), meaning) for names, meaning in rows for term in re.sub(r"\(.*?\)", "", names).split(",")]
    return dict(reversed(terms))


@cache  # the page, and a test of the glossary
def summary_types() -> dict[str, str]:
    """Return JSON type by key, over the summaries of `RUNS`, without the keys of the scenario."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(RUNS):
            summary = command_json("run", *line.split(), "--out", f"{folder}/{number}")
            found |= {key: _type_of(value) for key, value in summary.items() if value is not None or key not in found}
    return {key: kind for key, kind in found.items() if key not in OPTIONS and key != "path"}


def _type_of(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "")


def claims_by_metric() -> dict[str, set[str]]:
    """Return the algorithms that claim each metric, on a small network of each family."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in command_json("list", "algorithms"):
        if row["algorithm"] == "program":  # it claims what every run claims
            continue
        values = {
            "topology": EXAMPLES[row["topology"]],
            "collective": row["collective"],
            "algorithm": row["algorithm"],
            "port_model": row["port_models"][0],
            "messages": MESSAGES.get(row["algorithm"], 1),
            "driver": "memory",
        }
        for claim in run_claims(make_plan(make_scenario(values))).kept:
            found[claim.name].add(f"`{row['algorithm']}`")
    every = max(map(len, found.values()))
    return {name: users if len(users) < every else {"all"} for name, users in found.items()}

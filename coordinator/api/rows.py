"""A run as one flat row of a table."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from coordinator.api.options import is_duration
from coordinator.scenario.durations import parse_duration

Scalar: TypeAlias = str | int | float | bool | None


def run_row(name: str, scenario: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return a run as one row: the fields of its scenario, the metrics that are single numbers, verdict and violated claims.

    Of a key in both, the value of the summary is taken: `segments` is the number of segments that were sent.
    """
    fields = {
        key: parse_duration(value) if is_duration(key) and isinstance(value, str) else value
        for key, value in scenario.items()
    }
    row: dict[str, Scalar] = {"name": name}
    row |= {key: value for key, value in {**fields, **summary}.items() if isinstance(value, Scalar)}
    row["faults"] = ", ".join(scenario.get("fault") or summary.get("faults") or ())
    claims = summary.get("claims") or ()
    row["violated"] = ", ".join(dict.fromkeys(claim["name"] for claim in claims if claim["verdict"] == "violated"))
    return row

"""The text format of OpenMetrics 1.0, for Prometheus (https://prometheus.io/docs/specs/om/open_metrics_spec/).

The client library of Prometheus is made for counters that live as long as their process, in a global registry. Here a dozen
values are read when they are asked for, so writing them is all there is to do; the tests read the text with the library.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SUFFIX: Final = {"counter": "_total", "gauge": "", "info": "_info", "stateset": ""}


@dataclass(frozen=True)
class MetricFamily:
    """A metric with its samples: labels and value. `name` ends in the unit, if there is one."""

    name: str
    type: Literal["counter", "gauge", "info", "stateset"]
    help: str
    unit: str = ""
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)


def exposition(families: Iterable[MetricFamily]) -> str:
    """Return the text of these metrics; families without samples are left out."""
    lines = []
    for family in families:
        if not family.samples:
            continue
        lines.append(f"# TYPE {family.name} {family.type}")
        if family.unit:
            lines.append(f"# UNIT {family.name} {family.unit}")
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines += [
            f"{family.name}{SUFFIX[family.type]}{_labels(labels)} {value:.17g}" for labels, value in family.samples
        ]
    return "\n".join([*lines, "# EOF", ""])


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

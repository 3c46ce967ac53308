"""The metrics of a run for Prometheus, in the text format of OpenMetrics 1.0. docs/how-to/metrics.md lists them.

The client library of Prometheus is made for counters that live as long as their process, in a global registry. Here a dozen
values are read when they are asked for, so writing them is all there is to do; the tests read the text with the library.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from coordinator.execution.observer import RunObserver
from coordinator.results.claims import Verdict
from emunode import __version__
from emunode.model import HopOutcome

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


PREFIX: Final = "testbench_"
PHASES: Final = ("setup", "running", "finished")
MOST_HOSTS: Final = 256
"""With more hosts, there are no metrics by host: each would be a series of its own."""


def metrics_text(observer: RunObserver) -> str:
    """Return the present metrics, in the text format of OpenMetrics."""
    return exposition(families(observer))


def families(observer: RunObserver) -> Iterator[MetricFamily]:
    """Yield the present metrics; a metric that is not known yet has no samples."""
    plan, counters = observer.plan, observer.counters
    scenario, result = plan.scenario, observer.result
    summary: Mapping[str, Any] = {} if result is None else result.summary
    run = {
        "topology": plan.topology.name, "collective": str(scenario.collective), "algorithm": scenario.algorithm,
        "driver": scenario.driver, "clock": scenario.clock, "seed": str(scenario.seed), "version": __version__,
    }  # fmt: skip
    yield _family("run", "info", "What is run.", samples=[(run, 1)])
    yield _states("phase", "What the run is doing.", PHASES, observer.phase)
    yield _value("nodes", "gauge", "Nodes of the network.", plan.topology.order)
    yield _value("hosts", "gauge", "Host processes that have joined.", observer.hosts)
    yield _value("links", "gauge", "TCP connections that are up; 0 in memory.", observer.links)
    yield _value("run_seconds", "gauge", "Time since the start of the run.", observer.seconds, "seconds")
    yield _value("steps", "counter", "Steps up to the last one with packets.", counters.steps)
    yield _value("faults", "counter", "Faults that have taken effect.", observer.faults)
    yield _value("packets", "counter", "Packets sent: what crosses a link in a step.", counters.packets)
    across = counters.packets_across_hosts if plan.hosts else None
    yield _value("packets_across_hosts", "counter", "Packets between nodes of different hosts.", across)
    yield _value("sent_bytes", "counter", "Bytes sent, once per hop.", counters.bytes, "bytes")
    outcomes = [
        ({"outcome": each.name.lower()}, counters.outcomes[each]) for each in HopOutcome if each < HopOutcome.CONTROL
    ]
    yield _family("segments", "counter", "Segments sent, once per hop, by what became of them.", samples=outcomes)
    hosts = counters.received_by_host.tolist() if plan.hosts <= MOST_HOSTS else []
    received = [({"host": str(host)}, count) for host, count in enumerate(hosts)]
    yield _family(
        "host_received_segments", "counter", "Segments that arrived at the nodes of a host.", samples=received
    )
    for name in ("expected_deliveries", "intact_deliveries"):
        yield _value(name, "gauge", f"{MEANINGS[name]} Known at the end.", summary.get(name))
    yield _value("lateness_ratio", "gauge", f"{MEANINGS['lateness']} Known at the end.", summary.get("lateness_ratio"))
    worst = summary.get("worst_lateness_seconds")
    yield _value(
        "worst_lateness_seconds", "gauge", "Of the packet that was most late. Known at the end.", worst, "seconds"
    )
    verdict = None if result is None else str(result.verdict)
    yield _states("verdict", "The verdict on all claims. Known at the end.", tuple(map(str, Verdict)), verdict)


MEANINGS: Final = {
    "expected_deliveries": "Deliveries that are due.",
    "intact_deliveries": "Messages delivered with the right bytes.",
    "lateness": "Under the timed clock, how late the machine was, as a share of the intended time.",
}


def _family(name: str, kind: Any, meaning: str, unit: str = "", samples: Any = ()) -> MetricFamily:
    return MetricFamily(PREFIX + name, kind, meaning, unit, list(samples))


def _value(name: str, kind: str, meaning: str, value: float | None, unit: str = "") -> MetricFamily:
    return _family(name, kind, meaning, unit, [] if value is None else [({}, value)])


def _states(name: str, meaning: str, states: tuple[str, ...], state: str | None) -> MetricFamily:
    samples = [({PREFIX + name: each}, float(each == state)) for each in states]
    return _family(name, "stateset", meaning, samples=samples if state is not None else [])

"""Metrics for Prometheus: the library reads them, they equal the journal at every step, and a run is the same with them."""

import http.client
import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from coordinator.execution.observer import RunCounters, RunObserver
from coordinator.execution.run import run
from coordinator.execution.run_metrics import MOST_HOSTS, MetricFamily, exposition, families, metrics_text
from coordinator.execution.sinks import DirectorySink, RunResult
from coordinator.live.metrics import MetricsServer, write_metrics
from coordinator.live.opening import metrics_target
from coordinator.networks.base import StepResult, UnreadArrivals
from coordinator.planning.plan import Plan
from emunode.errors import RunError, ScenarioError
from emunode.host.placement import Placement
from emunode.model import CONTROL_TREE, Step
from tests.helpers.command_line import ROOT, Call, free_port, wait_until
from tests.helpers.scenarios import Case

FLOOD: Final = "star:3 broadcast flood driver=memory"
Values = Mapping[str, float]


def parsed(text: str) -> list[Any]:
    """Return the metrics in a text, as the library of Prometheus reads them."""
    return list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]


def read(text: str) -> Values:
    """Return the samples in a text by name and labels."""
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in parsed(text)
        for sample in family.samples
    }


def observed(out: Path, scenario: str) -> tuple[RunResult, RunObserver]:
    """Return a run and what was observed of it."""
    plan = Case(scenario).plan
    observer = RunObserver(plan)
    result = run(plan, DirectorySink(out, draw=False), observer.progress, observe=observer.counters.add)
    observer.conclude(result)
    return result, observer


@pytest.mark.parametrize(
    "scenario",
    [
        FLOOD,
        "star:4 broadcast greedy-tree driver=memory fault=crash:2134@2",
        "star:4 allgather mbst driver=memory messages=3",
        "hypercube:4 broadcast nesbt driver=memory redundancy=3 fault=byzantine:0001@1 fault=loss:0000~0010:0.5",
        "star:4 broadcast edt driver=memory fault=duplicate:1234>2134:1 fault=delay:1234>3214:2@1",
        "star:4 broadcast greedy-tree driver=memory reliable=true fault=loss:1234~2134:0.6 seed=4",
        "star:4 broadcast greedy-tree driver=memory clock=timed startup=1ms per_byte=1us messages=4",
        "star:4 allgather mbst driver=local ranks_per_host=9",
    ],
)
def test_totals_equal_those_of_the_summary(tmp_path: Path, scenario: str) -> None:
    result, observer = observed(tmp_path / "run", scenario)
    values, summary = read(metrics_text(observer)), result.summary
    for name in ("steps", "packets"):
        assert values[f"testbench_{name}_total"] == summary[name], name
    assert values["testbench_sent_bytes_total"] == summary["bytes"]
    journal = pl.read_parquet(result.path / "journal.parquet").filter(pl.col("tree") < CONTROL_TREE)
    for outcome in ("first", "duplicate", "relay", "lost", "corrupt"):
        found = journal.filter(pl.col("outcome") == outcome).height
        assert values[f"testbench_segments_total outcome={outcome}"] == found
    assert values["testbench_intact_deliveries"] == summary["intact_deliveries"]
    assert values[f"testbench_verdict testbench_verdict={summary['verdict']}"] == 1
    assert sum(value for name, value in values.items() if name.startswith("testbench_verdict ")) == 1
    assert values["testbench_phase testbench_phase=finished"] == 1
    assert values["testbench_faults_total"] == len(result.plan.faults)
    assert ("testbench_lateness_ratio" in values) == (result.plan.scenario.clock == "timed")
    hosts = result.plan.hosts
    assert (values["testbench_hosts"], values["testbench_links"]) == (hosts, summary["links_opened"])
    arrived = journal.filter(~pl.col("outcome").is_in(["lost", "withheld"]))["receiver"]
    for host in range(hosts):
        ranks = [rank for rank in arrived if rank * hosts // result.plan.topology.order == host]
        assert values[f"testbench_host_received_segments_total host={host}"] == len(ranks)


@given(texts=st.lists(st.text(), min_size=1, max_size=3), value=st.floats(allow_nan=False, allow_infinity=False))
def test_the_library_reads_any_text(texts: list[str], value: float) -> None:
    family = MetricFamily("x", "gauge", texts[0], samples=[({"label": text}, value) for text in dict.fromkeys(texts)])
    (found,) = parsed(exposition([family]))
    assert [(sample.labels["label"], sample.value) for sample in found.samples] == [
        (text, value) for text in dict.fromkeys(texts)
    ]
    assert found.documentation == texts[0]


def test_many_hosts_have_no_series_of_their_own() -> None:
    plan = Case("star:6 broadcast flood driver=local ranks_per_host=2").plan
    assert plan.hosts > MOST_HOSTS
    assert "host=" not in metrics_text(RunObserver(plan))


def test_every_metric_is_documented() -> None:
    page = (ROOT / "docs" / "how-to" / "metrics.md").read_text()
    plan = Case(FLOOD).plan
    for family in families(RunObserver(plan)):
        assert f"| `{family.name}{'_total' if family.type == 'counter' else ''}` | {family.type} |" in page


# --- while it runs ---------------------------------------------------------------------------------------------------


class Scraper:
    """Steers a run without changing it: asks for the metrics before every step."""

    waited_seconds = 0.0

    def __init__(self, plan: Plan, scrape: Callable[[], str]) -> None:
        self.plan = plan
        self.scraped: list[Values] = []
        self._scrape = scrape

    async def before_step(self, step: Step) -> str | None:
        self.scraped.append(read(self._scrape()))
        return None

    def after_step(self, step: Step, result: StepResult, arrivals: UnreadArrivals) -> bool:
        return self.plan.is_over(step, result.busy)

    def end(self) -> None:
        pass


@contextmanager
def serving(observer: RunObserver) -> Iterator[MetricsServer]:
    target = metrics_target(":0")
    assert isinstance(target, socket.socket)
    with MetricsServer(target, lambda: metrics_text(observer)) as server:
        yield server


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        return str(answer.read().decode())


@pytest.mark.parametrize("driver", ["memory", "local"])
def test_metrics_follow_the_run_and_change_nothing(tmp_path: Path, driver: str) -> None:
    scenario = f"star:4 broadcast edt redundancy=3 messages=2 fault=crash:2134@3 driver={driver}"
    plan = Case(scenario).plan
    observer = RunObserver(plan)
    with serving(observer) as server:
        scraper = Scraper(plan, lambda: fetch(server.url))
        result = run(
            plan,
            DirectorySink(tmp_path / "run", draw=False),
            observer.progress,
            steering=scraper,
            observe=observer.counters.add,
        )
    assert result.summary["journal_hash"] == observed(tmp_path / "without", scenario)[0].summary["journal_hash"]
    journal = pl.read_parquet(result.path / "journal.parquet")
    for step, values in enumerate(scraper.scraped, 1):
        # Before a step, the arrivals of the step before the last one are known, and the losses of the last one.
        settled = journal.filter(
            (pl.col("step") < step - 1) | ((pl.col("step") == step - 1) & (pl.col("outcome") == "lost"))
        )
        assert values["testbench_sent_bytes_total"] == settled["bytes"].sum()
        assert values["testbench_packets_total"] == settled.select("step", "sender", "port").n_unique()
        assert values["testbench_faults_total"] == (step > 3)
        assert values["testbench_hosts"] == plan.hosts
    with pytest.raises(OSError, match="Connection refused"):
        fetch(server.url)


def test_only_local_requests_for_metrics_are_answered() -> None:
    with serving(RunObserver(Case(FLOOD).plan)) as server:
        place = urllib.parse.urlsplit(server.url)
        assert place.hostname == "127.0.0.1"
        for method, path, headers, status in (
            ("GET", "/metrics", {}, 200),
            ("GET", "/metrics?x=y", {}, 200),
            ("GET", "/", {}, 404),
            ("POST", "/metrics", {"origin": f"http://{place.netloc}"}, 405),
            ("GET", "/metrics", {"host": "example.org"}, 403),
            ("GET", "/metrics", {"origin": "http://example.org"}, 403),
        ):
            with closing(http.client.HTTPConnection(place.netloc, timeout=30)) as connection:
                connection.request(method, path, headers=headers)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == status, (method, path, headers)


# --- the flag --------------------------------------------------------------------------------------------------------


def test_metrics_are_written_to_a_file_at_the_end(call: Call, tmp_path: Path) -> None:
    line = "run --topology star:3 --collective broadcast --algorithm flood --driver memory --json"
    with_metrics = call(f"{line} --metrics run.prom").data
    assert with_metrics["journal_hash"] == call(line).data["journal_hash"]
    assert read((tmp_path / "run.prom").read_text())["testbench_packets_total"] == with_metrics["packets"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.prom", "runs"]


def test_a_run_says_where_its_metrics_are(call: Call) -> None:
    ended = call("run --topology star:3 --collective broadcast --algorithm flood --driver memory --metrics localhost:0")
    assert ended.status == 0
    assert ended.err.startswith("permutation star graph S_3: metrics at http://127.0.0.1:")


def test_a_port_in_use_is_refused(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        ended = call("run --topology star:3 --collective broadcast --algorithm flood --metrics", address)
    assert ended.status == 4
    assert f"metrics cannot be served at {address}: Address already in use; use another port" in ended.err


def test_targets(tmp_path: Path) -> None:
    assert metrics_target(f"{tmp_path}/a:1") == tmp_path / "a:1"
    with pytest.raises(ScenarioError, match="unknown host"):
        metrics_target("300.300.300.300:1")
    with pytest.raises(RunError, match="cannot be written"):
        write_metrics(tmp_path / "missing" / "file", "")


# --- the real thing --------------------------------------------------------------------------------------------------

PROMETHEUS: Final = shutil.which("prometheus")


@pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus not found (Debian, Ubuntu: apt install prometheus)")
def test_prometheus_reads_the_metrics(tmp_path: Path) -> None:
    assert PROMETHEUS is not None
    result, observer = observed(tmp_path / "run", "star:4 broadcast greedy-tree driver=memory fault=crash:2134@2")
    with serving(observer) as server:
        own = f"127.0.0.1:{free_port()}"
        target = urllib.parse.urlsplit(server.url).netloc
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
            "scrape_configs": [{"job_name": "run", "static_configs": [{"targets": [target]}]}],
        }
        (tmp_path / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        arguments = [
            "config.file=prometheus.yml",
            "storage.tsdb.path=data",
            f"web.listen-address={own}",
            "log.level=error",
        ]
        with subprocess.Popen([PROMETHEUS, *(f"--{each}" for each in arguments)], cwd=tmp_path) as prometheus:
            try:
                # A scrape that comes too late on a busy machine leaves a gap, and the next one fills it.
                found = {
                    name: wait_for_value(own, name)
                    for name in ("testbench_packets_total", "testbench_segments_total", "testbench_run_info")
                }
            finally:
                prometheus.terminate()
    assert found["testbench_packets_total"] == [({}, result.summary["packets"])]
    assert ({"outcome": "first"}, 23 - 10) in found["testbench_segments_total"]
    assert found["testbench_run_info"][0][0]["topology"] == "star:4"


def wait_for_value(server: str, expression: str) -> list[tuple[dict[str, str], float]]:
    """Return the labels and values that Prometheus has once it has read them."""
    found: list[list[tuple[dict[str, str], float]]] = []

    def read_again() -> object:
        found.append(query(server, expression))
        return found[-1]

    wait_until(read_again, f"a value of {expression}")
    return found[-1]


def query(server: str, expression: str) -> list[tuple[dict[str, str], float]]:
    """Return the labels and values that Prometheus has now; empty while it does not answer yet."""
    try:
        with urllib.request.urlopen(f"http://{server}/api/v1/query?query={expression}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    except OSError:
        return []
    known = ("__name__", "job", "instance")
    return [
        ({key: value for key, value in each["metric"].items() if key not in known}, float(each["value"][1]))
        for each in found
    ]


def test_packets_in_several_parts_are_counted_once() -> None:
    from emunode.net.wire import ROW

    def row(step: int, sender: int, segment: int) -> bytes:
        return ROW.pack(step, sender, 1, 0, -1, segment, 10, 0, 0, 0)

    counters = RunCounters(Placement(6, 2))
    counters.add([row(1, 0, 0), row(1, 0, 1)])
    counters.add([row(1, 0, 2), row(2, 5, 0)])
    counters.add([row(2, 5, 1), row(1, 0, 3)])
    assert (counters.steps, counters.packets, counters.segments, counters.bytes) == (2, 2, 6, 60)
    # Rank 0 is on the host of its receiver 0, and rank 5 is on the other one.
    assert counters.packets_across_hosts == 1

"""Memory and size of a run before anything is built: hops, limits of processes and containers, warnings."""

import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import coordinator as tb
from coordinator.dependence.losses import HOP_BYTES, MOST_HOPS, losses
from coordinator.dependence.outages import THROUGHOUT, Outages
from coordinator.planning import machine
from coordinator.planning.feasibility import describe_needs, warning, why_impossible
from coordinator.planning.resources import BYTES_PER_DELIVERY, hops, least_average_distance, memory_bytes
from emunode.topologies.base import breadth_first_distances
from emunode.topologies.registry import parse_topology, small_examples
from tests.command_line import Call
from tests.scenarios import Case


@pytest.mark.parametrize(
    ("topology", "algorithm"),
    [
        ("ej:2+3", "three-phase-restart-own"),
        ("ej:2+3", "three-phase-restart"),
        ("ej:3+4", "three-phase-restart-own"),
        ("ej:1+2^2", "three-phase-restart"),
    ],
)
def test_hops_of_the_restarting_controls_are_those_of_their_runs(topology: str, algorithm: str) -> None:
    run = tb.network(topology).allgather(algorithm)
    assert hops(Case(f"{topology} allgather {algorithm}").plan) == len(run.journal)


@pytest.mark.parametrize(
    ("topology", "collective", "algorithm", "values"),
    [
        ("star:4", "broadcast", "flood", {"messages": 3, "segments": 2}),
        ("complete:9", "broadcast", "flood", {}),
        ("petersen:5,2", "broadcast", "flood", {}),
        ("star:4", "broadcast", "edt", {"redundancy": 3}),
        ("star:5", "alltoall", "near-balanced-tree", {}),
        ("hypercube:4", "scatter", "sbt", {}),
        ("ring:12", "gather", "bfs-tree", {}),
        ("star:4", "allreduce", "bfs-tree", {}),
    ],
)
def test_hops_are_never_more_than_a_run_makes(
    topology: str, collective: str, algorithm: str, values: dict[str, object]
) -> None:
    plan = Case(f"{topology} {collective} {algorithm}", **values).plan
    run = tb.network(topology).run(collective, algorithm, **values)  # type: ignore[arg-type]
    assert 0.7 * len(run.journal) <= hops(plan) <= len(run.journal) or algorithm == "flood"
    assert hops(plan) <= len(run.journal)


@pytest.mark.parametrize("name", [name for name in small_examples() if parse_topology(name).order <= 64])
def test_the_least_average_distance_is_a_bound(name: str) -> None:
    topology = parse_topology(name)
    total = sum(sum(breadth_first_distances(topology, root)) for root in topology.ranks())
    assert least_average_distance(topology) <= total / (topology.order * (topology.order - 1)) + 1e-9


def test_the_bound_on_distances_is_met_by_dense_networks() -> None:
    assert least_average_distance(parse_topology("complete:9")) == 1
    assert least_average_distance(parse_topology("petersen:5,2")) == (3 * 1 + 6 * 2) / 9
    assert least_average_distance(parse_topology("ring:9")) == (1 + 1 + 2 + 2 + 3 + 3 + 4 + 4) / 8


def test_memory_counts_every_hop() -> None:
    plan = Case("ej:2+3^2 allgather three-phase-restart-own").plan
    # 361 nodes; a third of 19 reached in each dimension; each further phase starts 4^2 times as many.
    assert hops(plan) == 361 * (7 * 7 - 1) * (1 + 16 + 256) == describe_needs(plan)["hops"]
    assert memory_bytes(plan) > 129_960 * BYTES_PER_DELIVERY + 4_000_000 * 100


def test_a_run_that_moves_more_than_it_delivers_warns(call: Call) -> None:
    plan = Case("ej:2+3^2 allgather three-phase-restart-own").plan
    text = warning(plan)
    assert text is not None
    assert "at least 4,730,544 segments for 129,960 deliveries, 36 for each" in text
    assert warning(Case("star:6 alltoall near-balanced-tree").plan) is None
    assert warning(Case("ej:2+3 allgather three-phase-restart-own").plan) is None
    flags = "--topology ej:2+3^2 --collective allgather --algorithm three-phase-restart-own --driver memory"
    for command in ("plan", "run --step-limit 1 --out run", "sweep --step-limit 1"):
        shown = flags.replace(" --driver memory", "") if command.startswith("sweep") else flags
        ended = call(f"{command} {shown}")
        assert "4,730,544 segments for 129,960 deliveries" in ended.err
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tb.network("ej:2+3^2").allgather("three-phase-restart-own", step_limit=1)
    (only,) = [each for each in caught if each.category is RuntimeWarning]
    assert only.filename == __file__


# --- limits ----------------------------------------------------------------------------------------------------------


def test_the_limit_of_a_process_counts() -> None:
    code = (
        "import resource, coordinator as tb\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31))\n"
        "try:\n"
        "    tb.network('star:8').alltoall('near-balanced-tree')\n"
        "except tb.RunError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "this run needs about 1946.1 GiB of memory and 1." in done.stdout
    assert "deliveries by 9,227,594,880 hops" in done.stdout
    assert "Traceback" not in done.stderr


def test_processes_without_limits_have_none() -> None:
    if (
        resource.getrlimit(resource.RLIMIT_AS)[0]
        == resource.getrlimit(resource.RLIMIT_DATA)[0]
        == resource.RLIM_INFINITY
    ):
        assert machine.process_memory() is None


@pytest.mark.parametrize("version", [1, 2])
def test_the_limit_of_a_container_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int) -> None:
    folder = tmp_path / ("memory/job" if version == 1 else "job/inner")
    folder.mkdir(parents=True)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if version == 1 else ("memory.max", "memory.current")
    limited = folder if version == 1 else folder.parent
    (limited / names[0]).write_text(f"{3 * 2**30}\n")
    (limited / names[1]).write_text(f"{2 * 2**30}\n")
    (limited / "memory.stat").write_text(f"anon 5\ninactive_file {2**29}\n")
    if version == 2:
        (folder / "memory.max").write_text("max\n")
    lines = "4:memory:/job\n" if version == 1 else "0::/job/inner\n"
    monkeypatch.setattr(machine, "CONTROL_GROUPS", tmp_path)
    read = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path, *rest: lines if str(path) == "/proc/self/cgroup" else read(path, *rest)
    )
    assert machine.available_memory() == 2**30 + 2**29


def test_a_run_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Case("star:6 alltoall near-balanced-tree").plan
    assert why_impossible(plan) is None
    monkeypatch.setattr(machine, "process_memory", lambda: 2**28)
    assert "needs about 0.6 GiB of memory and 0.2 GiB are free" in str(why_impossible(plan))


def test_the_schedule_that_tells_losses_is_counted() -> None:
    fault = ["crash:2134567@1"]
    free, faulty = (Case("star:7 broadcast edt", redundancy=2, fault=each).plan for each in ([], fault))
    assert memory_bytes(faulty) - memory_bytes(free) == 2 * 5039 * HOP_BYTES
    many = Case("star:7 broadcast edt", redundancy=2, messages=100, fault=fault).plan
    assert hops(many) > MOST_HOPS
    assert losses(many.algorithm, Outages({1: [THROUGHOUT]})) is None, "nothing is traced"


def test_planning_imports_neither_numpy_nor_polars() -> None:
    code = "import sys, coordinator.planning.plan; print([name for name in ('numpy', 'polars') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

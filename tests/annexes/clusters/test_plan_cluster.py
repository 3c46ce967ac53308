"""The plan of a cluster: the model of control against closed forms, and the page against what the command prints."""

import re
import shlex
from itertools import accumulate, pairwise, repeat
from pathlib import Path

import pytest

from benchmarks import plan_cluster
from benchmarks.control_model import COORDINATOR, UnitCosts, step_time
from coordinator.networks.control_tree import tree_parents
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import ROOT

PAGE = ROOT / "docs" / "how-to" / "plan-a-cluster.md"
FAR = UnitCosts(send=3.0, take=2.0, work=5.0, latency=500.0)


def full_tree(fan_out: int, levels: int) -> list[int]:
    """Return the parents of a tree with `fan_out` children of every host but the last level."""
    hosts = sum(fan_out**level for level in range(1, levels + 1))
    return [host // fan_out - 1 for host in range(hosts)]


@pytest.mark.parametrize(("fan_out", "levels"), [(1, 1), (1, 5), (2, 4), (4, 3), (16, 2)])
def test_a_full_tree_with_long_wires_has_a_closed_form(fan_out: int, levels: int) -> None:
    send, take, work, latency = FAR
    # On every level the last child is sent its order last, and its report is taken last.
    expected = work + levels * (fan_out * send + 2 * latency + send + take)
    assert step_time(full_tree(fan_out, levels), FAR) == pytest.approx(expected)


@pytest.mark.parametrize("latency", [0.0, 40.0, 5000.0])
@pytest.mark.parametrize("take", [1.0, 3.0, 7.0])
@pytest.mark.parametrize("hosts", [1, 10, 1000])
def test_hosts_without_a_tree_have_a_closed_form(hosts: int, take: float, latency: float) -> None:
    send, work = 3.0, 5.0
    # Report i comes 2 latencies after order i. The first is taken once all orders are sent.
    comes = [i * send + 2 * latency + work + send for i in range(1, hosts + 1)]
    taken = accumulate(comes, lambda free, at: max(free, at) + take, initial=hosts * send)
    found = step_time([COORDINATOR] * hosts, UnitCosts(send, take, work, latency))
    assert found == pytest.approx(list(taken)[-1])


@pytest.mark.parametrize("fan_out", [2, 16])
def test_one_processor_does_all_the_work(fan_out: int) -> None:
    costs = UnitCosts(send=3.0, take=2.0, work=5.0, latency=0.0)
    # Each host is sent one order, works, and sends one report, which is taken.
    expected = 777 * (costs.send + costs.work + costs.send + costs.take)
    assert step_time(tree_parents(777, fan_out), costs, lambda _: 0) == pytest.approx(expected)


def test_the_tree_grows_with_the_logarithm() -> None:
    times = [step_time(tree_parents(hosts, 16), FAR) for hosts in (16, 272, 4368)]
    growth = [later - earlier for earlier, later in pairwise(times)]
    assert growth == pytest.approx(list(repeat(growth[0], 2)))
    assert step_time(tree_parents(10_000, 16), FAR) < times[-1] + 1.1 * growth[0]


@pytest.mark.parametrize(("network", "parts"), [("hypercube:6", 4), ("hypercube:12", 16), ("star:5", 5)])
def test_the_share_of_links_across_blocks_has_a_closed_form(network: str, parts: int) -> None:
    topology = parse_topology(network)
    # Blocks of Q_n are subcubes; the five blocks of S_5 begin with the same symbol, which one generator in four keeps.
    dimension = topology.degree
    expected = (parts.bit_length() - 1) / dimension if network.startswith("hypercube") else None
    found = plan_cluster.share_across(topology, parts)
    if expected is not None:
        assert found == pytest.approx(expected)
    else:
        neighbours = [(rank, peer) for rank in topology.ranks() for _, peer in topology.adjacent(rank)]
        assert found == sum(one // 24 != other // 24 for one, other in neighbours) / len(neighbours)


# --- the command and its page ------------------------------------------------------------------------------------------


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.findall(r"```sh\nscripts/plan-cluster ([^\n]*)\n```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(shown) >= 2
    for line, text in shown:
        assert plan_cluster.main(shlex.split(line)) == 0
        assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--topology hypercube:99 --machines 2", "--topology"),
        ("--topology hypercube:4 --machines 0", "expected a number from 1 to 10000"),
        ("--topology hypercube:4 --machines 9999 --cores 1000", "are more than 100,000 hosts"),
        ("--topology hypercube:4 --machines 2 --figures nowhere.json", "has no unit costs"),
    ],
    ids=["network", "machines", "hosts", "figures"],
)
def test_what_cannot_be_planned_is_refused(line: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        plan_cluster.main(line.split())
    assert ended.value.code == 2
    assert reason in " ".join(capsys.readouterr().err.split())


def test_a_file_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    path.write_text("[]")
    with pytest.raises(SystemExit):
        plan_cluster.main(["--topology", "star:4", "--machines", "2", "--figures", str(path)])
    assert "is not a result file" in capsys.readouterr().err

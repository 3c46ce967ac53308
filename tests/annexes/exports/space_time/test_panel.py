"""Which nodes, packets and suspicions the diagram of a run in space and time shows."""

import re
from pathlib import Path

import polars as pl

from coordinator.annexes.exports.space_time.panel import space_time_panel
from coordinator.reports.data import read_run
from coordinator.reports.panels.base import Report
from emunode.topologies.registry import parse_topology
from tests.helpers.scenarios import Case

LABEL = re.compile(r'<text class="end" x="\d+" y="[\d.]+">([^<]*)</text>')


def test_large_networks_show_the_paths_to_the_last_node(tmp_path: Path) -> None:
    path = Case("star:5 broadcast greedy-tree").stored(tmp_path / "run").path
    report = Report(read_run(path))
    text = str(space_time_panel(report))
    topology, journal = parse_topology("star:5"), pl.read_parquet(path / "journal.parquet")
    last = journal.filter(pl.col("step") == pl.col("step").max())["receiver"].min()
    assert isinstance(last, int)
    chain, parents = [last], dict(journal.select("receiver", "sender").iter_rows())
    while chain[0] in parents:
        chain.insert(0, parents[chain[0]])
    assert f"the nodes on the paths to {topology.label(last)}, which was done last" in text
    labels = LABEL.findall(text.partition("chart full")[2].partition("</svg>")[0])
    assert labels[:-1] == [topology.label(rank) for rank in chain]
    among = journal.filter(pl.col("sender").is_in(chain) & pl.col("receiver").is_in(chain))
    assert text.partition("chart full")[2].partition("</svg>")[0].count("L") == len(among)


def test_without_a_source_the_busiest_nodes_are_shown(tmp_path: Path) -> None:
    path = Case("hypercube:6 allgather bfb").stored(tmp_path / "run").path
    text = str(space_time_panel(Report(read_run(path))))
    assert "the 24 nodes with the most packets" in text
    assert len(LABEL.findall(text.partition("chart full")[2].partition("</svg>")[0])) == 24 + 1  # and the unit of time

"""`coordinator judge traffic`, and the output of traffic that `judge mpi` shares."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter
from rich.markup import escape

from coordinator.annexes.mpi.history import save_call, save_history
from coordinator.annexes.mpi.judge import WITHOUT_RULES, JudgeSettings, judged_collectives, rule_of
from coordinator.annexes.mpi.placement import nodes_of, place
from coordinator.annexes.mpi.rules.base import PairCounts
from coordinator.annexes.mpi.traffic import TrafficTable, read_traffic, summary_rows
from coordinator.annexes.mpi.verdicts import CallVerdict, judge_counts
from coordinator.cli import render
from coordinator.cli.output import OUTPUT, Command, as_command
from coordinator.results.claims import EXIT_STATUS
from coordinator.scenario.networks import load_topology
from emunode.errors import ScenarioError
from emunode.terminal import print_json, say
from emunode.topologies.base import Topology

CALLS = Group("Calls", sort_key=0)
PLACE = Group("Cost on a network", sort_key=3)
BENCH_NAMES = {"broadcast": "bcast"}
"""Collectives in this bench with another name in MPI."""


@dataclass(kw_only=True)
class TrafficOutput(Command):
    """A command that shows traffic: its cost on a network, and run directories."""

    topology: Annotated[
        str | None,
        Parameter(group=PLACE, help="what the traffic would cost on the links of this network, such as torus:4x4"),
    ] = None
    placement: Annotated[
        str, Parameter(group=PLACE, help="node of each rank: in-order, random:SEED, or labels separated by semicolons")
    ] = "in-order"
    out: Annotated[
        Path | None,
        Parameter(group=OUTPUT, help="folder for run directories that report, compare, export and verify read"),
    ] = None

    def network(self) -> Topology | None:
        """Return the network that traffic is placed on."""
        return None if self.topology is None else load_topology(self.topology)

    def placed(self, network: Topology | None, table: TrafficTable) -> list[Mapping[str, object]]:
        """Return the cost of all traffic together."""
        if network is None:
            return []
        return [{"collective": "all", **cost_on(network, table.ranks, table.total, self.placement)}]


@as_command
@dataclass
class TrafficCommand(TrafficOutput):
    """Show a table of traffic that another tool measured, and compare it with a rule.

    The rows of one collective are added up. With --algorithm, the messages of the rows of --collective are compared with the
    rule of this algorithm; a file without that name must name one collective at most.

    Examples:
      coordinator judge traffic dump.csv --topology torus:4x4
      coordinator judge traffic dump.csv --collective allreduce --algorithm ring --bytes 4096
    """

    file: Annotated[
        Path, Parameter(help="table in CSV with the columns source, target, messages, bytes, and perhaps collective")
    ]
    _: KW_ONLY
    collective: Annotated[
        str | None,
        Parameter(group=CALLS, help="compare with the rule of this collective of Open MPI; needs --algorithm"),
    ] = None
    algorithm: Annotated[str | None, Parameter(group=CALLS, help="name of its algorithm, such as ring")] = None
    bytes: Annotated[int, Parameter(group=CALLS, help="size of the vector or block in bytes")] = 1000
    root: Annotated[int, Parameter(group=CALLS, help="rank where a rooted collective begins or ends")] = 0
    segment: Annotated[int, Parameter(group=CALLS, help="segment size in bytes; 0: none")] = 0
    ranks: Annotated[
        int | None, Parameter(group=CALLS, help="number of ranks; default: up to the highest rank in the file")
    ] = None

    def __call__(self) -> int:
        network = self.network()
        table = read_traffic(self.file, self.ranks)
        verdict = None
        if self.algorithm is not None or self.collective is not None:
            verdict = _judge_table(table, self.collective, self.algorithm, (self.bytes, self.root, self.segment))
        placed = self.placed(network, table)
        saved = None if self.out is None else save_traffic(table, f"the file {self.file.name}", verdict, self.out)
        status = 0 if verdict is None else EXIT_STATUS[verdict.verdict]
        if self.json:
            judged = None if verdict is None else verdict.record()
            rows = list(summary_rows(table))
            print_json(
                {"ranks": table.ranks, "traffic": rows, "judged": judged, "placed": placed, "out": saved and str(saved)}
            )
            return status
        show_traffic(table, placed, saved)
        if verdict is None:
            say("nothing was judged: --collective and --algorithm name a rule")
        else:
            text = f"verdict: {render.verdict_text(verdict.verdict)}"
            render.console().print(text + (f"   ({escape(verdict.reason)})" if verdict.reason else ""), wrap=True)
        return status


def _judge_table(
    table: TrafficTable, collective: str | None, algorithm: str | None, sizes: tuple[int, int, int]
) -> CallVerdict:
    """Judge the rows of a collective by the rule of an algorithm."""
    if collective is None or algorithm is None:
        raise ScenarioError("algorithm", algorithm, "a rule needs both --collective and --algorithm")
    names = collectives_of(collective)
    if len(names) > 1:
        raise ScenarioError("collective", collective, "one collective")
    (name,) = names
    size, root, segment = sizes
    settings = JudgeSettings([name], [algorithm], [table.ranks], [size], [root], [segment])
    call, declared = rule_of(settings)
    rows = next((each for each in (collective, name) if each in table.tables), None)
    if rows is None and len(table.tables) > 1:
        raise ScenarioError("collective", collective, f"the file has several others: {', '.join(table.tables)}")
    return judge_counts(call, declared, table.total if rows is None else table.tables[rows])


def save_traffic(table: TrafficTable, origin: str, verdict: CallVerdict | None, out: Path) -> Path:
    """Write a run directory with the table and its heat map."""
    if verdict is not None:
        return save_call(verdict, origin, out, table.csv())
    summary = {"collective": " and ".join(table.tables) or "none", "algorithm": "measured", "verdict": "undecided"}
    because = {"undecided_because": "no rule was given", "claims": []}
    return save_history(
        "traffic", table.ranks, table.total, {**summary, **because}, {"origin": origin}, out, table.csv()
    )


def cost_on(network: Topology, ranks: int, counts: PairCounts, placement: str) -> Mapping[str, object]:
    """Return the cost of traffic on a network."""
    return place(network, nodes_of(network, ranks, placement), counts).record()


def show_placed(placed: Sequence[Mapping[str, object]]) -> None:
    """Print the costs of traffic on a network."""
    if not placed:
        return
    names = {
        "collective": "collective", "algorithm": "algorithm", "ranks": "ranks", "busiest_link_bytes": "most bytes",
        "congestion": "most messages", "hops": "hops", "steps_at_least": "least steps",
    }  # fmt: skip
    rows = [{title: row[name] for name, title in names.items() if name in row} for row in placed]
    render.show_rows(f"on {placed[0]['topology']}, by one shortest path for each pair", rows)


def show_traffic(table: TrafficTable, placed: Sequence[Mapping[str, object]], saved: Path | None) -> None:
    """Print a row for each collective, and the costs on a network."""
    render.show_rows(f"traffic of {table.ranks} ranks", list(summary_rows(table)))
    show_placed(placed)
    if saved is not None:
        say(f"saved: {saved} (traffic.csv, report.html)")


def collectives_of(text: str) -> Sequence[str]:
    """Return the names of collectives in the library."""
    if text == "all":
        return [name for name in judged_collectives() if name not in WITHOUT_RULES]
    return [BENCH_NAMES.get(name, name.replace("-", "_")) for name in names_of("collective", text)]


def names_of(field: str, text: str) -> list[str]:
    """Return the names of a text, separated by commas, without repetition."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ScenarioError(field, text, "names, separated by commas")
    return list(dict.fromkeys(names))

"""Networks as objects, with one method per collective."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, Unpack, get_type_hints

from coordinator.annexes import annex_function
from coordinator.api.lists import runnable
from coordinator.api.option_types import Options
from coordinator.api.options import FaultTexts, as_list, scenario_of
from coordinator.api.pickling import KeptTopology, keep_topology, kept_plugins, load_kept_plugins, restore_topology
from coordinator.api.progress import ProgressOption
from coordinator.api.runs import Run, run_plan
from coordinator.planning.plan import make_plan
from coordinator.reports import drawing
from coordinator.scenario.declared_network import Reading
from coordinator.scenario.model import OPTIONS
from coordinator.scenario.network_files import from_networkx, is_network_file, to_networkx
from coordinator.scenario.networks import PREFIX, hold_network, load_topology
from coordinator.scenario.plugins import load_plugins
from emunode.errors import ScenarioError
from emunode.model import Collective, Plugin
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.topologies.table import TableTopology

if TYPE_CHECKING:
    import networkx

LARGEST_DRAWN = 1_050
"""The largest network that a notebook draws unasked; `coordinator graph --picture` draws larger ones."""

Source: TypeAlias = "str | PathLike[str] | Topology | networkx.Graph[Any]"
"""The name of a network, or the network itself."""
Outcome_co = TypeVar("Outcome_co", covariant=True)
"""The result of a method: a run, or an awaitable one."""


class BaseNetwork:
    """A network and its properties."""

    def __init__(self, topology: Topology, plugins: Sequence[str] = ()) -> None:
        self.topology = topology
        """The network as the algorithms see it: ranks, labels, ports, neighbours, distances."""
        self.values: dict[str, object] = {"topology": topology.name}
        """The values of a scenario that name this network, as long as this object exists."""
        if isinstance(topology, TableTopology):
            self.values = hold_network(topology)
        self.plugins = list(plugins)
        """The plug-ins that every run of this network names."""
        if plugins:
            self.values["plugin"] = self.plugins

    @property
    def name(self) -> str:
        """The canonical name, such as `star:4`."""
        return self.topology.name

    @property
    def order(self) -> int:
        """The number of nodes."""
        return self.topology.order

    @property
    def degree(self) -> int:
        """The largest number of links of a node."""
        return self.topology.degree

    @property
    def labels(self) -> list[str]:
        """The label of every node, by rank."""
        return [self.topology.label(rank) for rank in self.topology.ranks()]

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Every link once, as the labels of its ends.

        The end of lower rank comes first.
        """
        label = self.topology.label
        return [(label(one), label(other)) for one, _, other, _ in self.topology.links()]

    def to_networkx(self) -> "networkx.Graph[str]":
        """Return the network as a networkx graph of its labels.

        Nodes have their `rank`, and `switch` where they only forward. Links have the `ports` at their ends, first the
        port of the lower rank. Attributes from a file are kept.
        """
        return to_networkx(self.topology)

    def algorithms(self, collective: str | None = None) -> list[str]:
        """Return the names of the algorithms that can run on this network.

        They are the algorithms of one collective, or of all; see `coordinator.algorithms`. Raises ScenarioError (field
        `collective`).
        """
        return list(dict.fromkeys(entry.name for entry in runnable(self.topology, collective)))

    def __eq__(self, other: object) -> bool:
        """Compare networks: the same nodes, labels, ports and links under the same name, and the same plug-ins."""
        return isinstance(other, BaseNetwork) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the network as its name, or whole if it is from a file, with the plug-ins that it needs."""
        return restore_network, (type(self), keep_topology(self.topology), self.plugins, kept_plugins(self.plugins))

    @property
    def _identity(self) -> tuple[str, str, tuple[str, ...]]:
        digest = self.topology.sha256 if isinstance(self.topology, TableTopology) else ""
        return self.name, digest, tuple(self.plugins)

    def figures(self, *names: str, work: float | None = None) -> list[Any]:
        """Return figures of fault tolerance by name, each an `InvariantResult` with its closed form.

        A name is such as `"extra_connectivity:4"`. Without names, all are returned. `work` limits each figure, in units
        of about a microsecond. The default is the limit of `coordinator graph`. A figure that is not computed says
        why. Raises ScenarioError (field `figure` or `work`).
        """
        evaluate = annex_function("figures of a network")
        return list(evaluate(self.topology, names, work))

    def __repr__(self) -> str:
        return f"<network {self.name}: {self.order:,} nodes>"

    def _repr_svg_(self) -> str | None:
        svg: str | None = drawing("network")(self.topology) if self.order <= LARGEST_DRAWN else None
        return svg


def restore_network(
    kind: Callable[[Topology, Sequence[str]], BaseNetwork],
    kept: KeptTopology,
    plugins: Sequence[str],
    loaded: Sequence[Plugin],
) -> BaseNetwork:
    """Make a network from its pickle.

    Like every pickle, this executes any code that its author wants.
    """
    load_kept_plugins(loaded)
    return kind(restore_topology(kept), plugins)


class CollectiveMethod(Protocol[Outcome_co]):
    """Runs one collective on a network.

    `Network` describes the arguments.
    """

    def __call__(
        self,
        algorithm: str | None = None,
        *,
        faults: FaultTexts = (),
        out: Path | str | None = None,
        progress: ProgressOption = None,
        **options: Unpack[Options],
    ) -> Outcome_co:
        """Run the collective by an algorithm."""


class CollectiveMethods(Generic[Outcome_co]):
    """One method per collective, for type checkers.

    `add_collectives` makes the methods.
    """

    broadcast: CollectiveMethod[Outcome_co]
    scatter: CollectiveMethod[Outcome_co]
    gather: CollectiveMethod[Outcome_co]
    reduce: CollectiveMethod[Outcome_co]
    allgather: CollectiveMethod[Outcome_co]
    alltoall: CollectiveMethod[Outcome_co]
    allreduce: CollectiveMethod[Outcome_co]
    reduce_scatter: CollectiveMethod[Outcome_co]
    unicast: CollectiveMethod[Outcome_co]


class Network(BaseNetwork, CollectiveMethods[Run]):
    """A network, with one method per collective operation that runs it and returns a `Run`.

    Each method takes the name of an algorithm (`coordinator list algorithms`), or `trees="FILE"` in its place, and the
    fields of a scenario as keyword arguments, with the names and units of a scenario file; times may also be numbers of
    seconds. `faults` is one fault or several, such as `"crash:4231@2"`. Runs are in memory unless `driver` is `local` (host
    processes over TCP) or `docker`; only `out` leaves a run directory behind. `progress=True` shows progress (the default
    in a notebook).

    All raise ScenarioError for a scenario that is not possible, RuleError for an algorithm that breaks the model, RunError
    if the run could not be started, and KeyboardInterrupt if it was interrupted, after everything it started has ended.

    >>> import coordinator as tb
    >>> run = tb.network("hypercube:3").allgather("ring")
    >>> run.steps.height, run.summary["delivery_ratio"]
    (7, 1.0)
    """

    def run(
        self,
        collective: str,
        algorithm: str | None = None,
        *,
        faults: FaultTexts = (),
        out: Path | str | None = None,
        progress: ProgressOption = None,
        **options: Unpack[Options],
    ) -> Run:
        """Run the collective of this name; arguments and errors as of the method of that name."""
        values = {**self.values, "collective": collective}
        if algorithm is not None:
            values["algorithm"] = algorithm
        plan = make_plan(scenario_of(values, faults, options))
        return run_plan(plan, None if out is None else Path(out), progress)


def network(
    source: Source,
    *,
    name: str | None = None,
    relabel: bool = False,
    merge_links: bool = False,
    plugin: str | Sequence[str] = (),
) -> Network:
    """Return a network to run collectives on.

    `source` is a name such as `star:4`, `torus:4x4` or `file:NET.graphml` (`coordinator list topologies`), the path of a
    file (.graphml, .gml, .json, .edges, ..), a networkx graph, or a Topology. `name` names a graph; `relabel=True`
    calls the nodes of a file or a graph by their ranks, and `merge_links=True` makes one link of parallel links: their rates
    and weights add. `plugin` is one plug-in or several, `FILE.py` or the name of an installed
    module: they are executed, and every run of the network names them. Raises ScenarioError (field `topology` or `plugin`).

    >>> import coordinator as tb
    >>> net = tb.network("star:4")
    >>> run = net.broadcast("edt", redundancy=3, faults=["crash:4231@2"])
    >>> print(run.verdict)
    holds
    """
    plugins = load_plugins(as_list(plugin))
    return Network(topology_of(source, name, relabel=relabel, merge_links=merge_links), plugins)


def topology_of(source: Source, name: str | None = None, **reading: Unpack[Reading]) -> Topology:
    """Return the topology for `network`."""
    if isinstance(source, Topology):
        # Hosts make a topology from its name, unless it is sent to them whole.
        return source if isinstance(source, TableTopology) else parse_topology(source.name)
    if isinstance(source, str | PathLike):
        return _named(fspath(source), **reading)
    if not all(hasattr(source, method) for method in ("nodes", "edges", "is_directed")):
        raise ScenarioError("topology", source, "expected a name, the path of a file, a networkx graph, or a Topology")
    return from_networkx(source, name, **reading)


def _named(text: str, **reading: Unpack[Reading]) -> Topology:
    if text.startswith(PREFIX) or is_network_file(text):
        return load_topology(f"{PREFIX}{Path(text.removeprefix(PREFIX)).absolute()}", **reading)
    return parse_topology(text)


def add_collectives(network: type, run: Callable[..., Any]) -> None:
    """Give a class of networks a method per collective that calls `run` with the name of the collective."""
    # Messages come from schedule files only.
    for collective in [each for each in Collective if each is not Collective.MESSAGES]:
        setattr(network, _identifier(collective), _method(collective, run))


def _identifier(collective: Collective) -> str:
    return collective.replace("-", "_")


def _plain(default: object) -> object:
    """Return the default of an option as a user writes it."""
    return default.value if isinstance(default, Enum) else default


def _method(collective: Collective, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method whose signature and help list every option, with its default and meaning."""

    # No defaults here: the documentation takes defaults from the signature below.
    def method(self: BaseNetwork, *algorithm: str, **options: Any) -> Any:
        return run(self, collective, *algorithm, **options)

    method.__name__ = _identifier(collective)
    method.__qualname__ = f"{Network.__name__}.{method.__name__}"
    own = [each for each in inspect.signature(run).parameters.values() if each.name not in ("collective", "options")]
    fields = [(name, OPTIONS[name].field) for name in Options.__annotations__ if name in OPTIONS]
    kinds = get_type_hints(Options)
    given = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default="memory" if name == "driver" else _plain(field.default),
            annotation=kinds[name] | None if field.default is None else kinds[name],
        )
        for name, field in fields
    ]
    result = Awaitable[Run] if inspect.iscoroutinefunction(run) else Run
    method.__signature__ = inspect.Signature([*own, *given], return_annotation=result)  # type: ignore[attr-defined]
    method.__annotations__ = {each.name: each.annotation for each in own[1:]} | kinds | {"return": result}
    meanings = "\n".join(f"* {name}: {field.description}" for name, field in fields)
    arguments = inspect.getdoc(Network)
    method.__doc__ = f"Run the collective {collective} by an algorithm.\n\n{arguments}\n\nOptions:\n{meanings}"
    return method


add_collectives(Network, Network.run)

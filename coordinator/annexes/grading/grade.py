"""Grading of one file: its definitions decide the requirements."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coordinator.annexes.grading.algorithm_marks import AlgorithmGrader, require_judged, undeclared
from coordinator.annexes.grading.answers import LoadedFile, Registered
from coordinator.annexes.grading.confinement import Limits
from coordinator.annexes.grading.given_network import GivenNetwork
from coordinator.annexes.grading.layers import Protection
from coordinator.annexes.grading.marks import POINTS, Mark, MarkVerdict, overall
from coordinator.annexes.grading.submission import (
    GradingTimeError,
    SubmissionEndedError,
    SubmissionProcess,
    SubmissionServer,
)
from coordinator.annexes.grading.tree_marks import MOST_CSV, PROPERTIES, grade_trees, read_csv, read_submission
from coordinator.networks.base import Progress
from coordinator.planning.machine import descriptor_limit
from emunode.algorithms.base import ANY_FAMILY
from emunode.errors import RunError, ScenarioError
from emunode.model import Collective, PortModel
from emunode.topologies.base import FAMILIES, Topology
from emunode.topologies.registry import parse_topology

FEWEST_FILES: Final = 64
"""The open files of the process that judges."""
GivenNetworks = dict[str, tuple[list[GivenNetwork], Mark]]
"""By family: the networks that a submission defines, with their mark."""
MOST_BYTES: Final = 1 << 20
LARGEST_ORDER: Final = 130
"""The largest order of a network that is chosen here."""
MOST_NETWORKS: Final = 3
"""How many networks of a family are chosen here."""
ANY_NETWORKS: Final = ("star:3", "hypercube:3", "ring:7", "mesh:3x4", "debruijn:2,3", "fat-tree:2", "star:4")
"""Where an algorithm for every network is tried: with translations and without, with odd cycles, and with switches."""


@dataclass(frozen=True, slots=True)
class GradeOptions:
    """The requirements on a submission beyond its own claims."""

    networks: Sequence[Topology] = ()
    port_models: Sequence[PortModel] = ()
    properties: Sequence[str] = ()
    within: float | None = None
    limits: Limits = field(default_factory=Limits)
    require_confinement: bool = False
    """Whether a submission is executed only if all layers of confinement hold."""


@dataclass(slots=True)
class GradedPart:
    """One thing that a file defines, with its marks."""

    kind: str
    name: str
    networks: list[str]
    marks: list[Mark]

    @property
    def points(self) -> tuple[int, int]:
        """Points, and the most that could be."""
        return sum(mark.points for mark in self.marks), POINTS * sum(mark.required for mark in self.marks)


@dataclass(slots=True)
class Grade:
    """The result for one file."""

    file: str
    subjects: list[GradedPart] = field(default_factory=list)
    printed: str = ""
    protection: Protection = field(default_factory=Protection)
    """The layers of confinement that held, and why others did not; empty for a file that is not executed."""

    @property
    def verdict(self) -> MarkVerdict:
        """The verdict of all marks together."""
        return overall(mark for subject in self.subjects for mark in subject.marks)

    def record(self) -> dict[str, object]:
        """Return the grade as plain values."""
        return {
            "file": self.file,
            "verdict": str(self.verdict),
            "points": sum(subject.points[0] for subject in self.subjects),
            "of": sum(subject.points[1] for subject in self.subjects),
            "protection": self.protection.held,
            "not_protected": self.protection.missing,
            "printed": self.printed,
            "subjects": [
                {
                    "kind": subject.kind,
                    "name": subject.name,
                    "networks": subject.networks,
                    "points": subject.points[0],
                    "of": subject.points[1],
                    "marks": [mark.record() for mark in subject.marks],
                }
                for subject in self.subjects
            ],
        }


def grade(path: Path, options: GradeOptions, progress: Progress) -> Grade:
    """Grade a file by its suffix: `.py` or `.csv`. Raises ScenarioError (field `file`) for a file that cannot be read."""
    unknown = [name for name in options.properties if name not in PROPERTIES]
    if unknown:
        raise ScenarioError("property", unknown[0], f"expected one of {', '.join(PROPERTIES)}")
    if path.suffix not in (".py", ".csv"):
        raise ScenarioError("file", str(path), "expected an algorithm, a network or trees in .py, or trees in .csv")
    if not path.is_file():
        raise ScenarioError("file", str(path), "there is no such file")
    if path.suffix == ".csv":
        return _grade_csv(path, options)
    text = read_submission(path, MOST_BYTES)
    if descriptor_limit() < FEWEST_FILES:
        raise RunError(f"the limit of {descriptor_limit()} open files is too low to grade; raise it to {FEWEST_FILES}")
    with SubmissionServer(path.name, text, options.limits) as server:
        _require_confined(server, options)
        result = Grade(str(path), _grade_python(server, options, progress))
        result.printed, result.protection = server.printed, server.protection
    return result


def _require_confined(server: SubmissionServer, options: GradeOptions) -> None:
    missing = server.protection.missing
    if missing and options.require_confinement:
        reasons = ", ".join(f"{layer} ({reason})" for layer, reason in missing.items())
        raise RunError(f"the submission was not executed, since this machine does not confine it fully: no {reasons}")


def _grade_csv(path: Path, options: GradeOptions) -> Grade:
    if len(options.networks) != 1:
        raise ScenarioError("topology", None, "trees in a CSV file are trees of one network: give --topology NET")
    (topology,) = options.networks
    trees = read_csv(path, read_submission(path, MOST_CSV), topology)
    marks = grade_trees(topology, trees, options.properties)
    return Grade(str(path), [GradedPart("trees", path.stem, [topology.name], marks)])


def _grade_python(server: SubmissionServer, options: GradeOptions, progress: Progress) -> list[GradedPart]:
    loading = Mark("loads", "the file is a Python module that registers an algorithm or a network, or defines trees")
    subjects = [GradedPart("file", "the file", [], [loading])]
    with _loading(server, loading) as process:
        if process is None:
            return subjects
        loaded = process.loaded
        if loaded is None:
            loading.add([str(process.problem)])
            return subjects
        problems = list(_false_names(loaded))
        if not (loaded.algorithms or loaded.families or loaded.trees):
            problems.append(
                "it registers nothing: decorate a class with emunode.registry.register, or define parent(label, tree)"
            )
        if not loading.add(problems):
            return subjects
        loading.notes += [
            f"{one.key[2]} is, or derives from, the built-in {one.built_in}"
            for one in loaded.algorithms
            if one.built_in
        ]
        for described in loaded.algorithms:
            require_judged(described)
        given = _given_networks(process, loaded.families)
    for family, (own, mark) in given.items():
        subjects.append(GradedPart("network", family, [network.name for network in own], [mark]))
    subjects += _grade_algorithms(server, loaded.algorithms, given, options, progress)
    for source in loaded.trees:
        subjects += _grade_tree_source(server, source, options)
    return subjects


def _false_names(loaded: LoadedFile) -> Iterator[str]:
    """Yield names that an honest process cannot answer with: the judge's networks are not the submission's to define."""
    known = {ANY_FAMILY, *FAMILIES}
    for family in sorted(known.intersection(loaded.families)):
        yield f"the family {family} is not its own"
    for key, times in Counter(one.key for one in loaded.algorithms).items():
        if times > 1:
            yield f"{' '.join(key):.80} is registered twice"
    for one in loaded.algorithms:
        family, collective, _ = one.key
        if family not in known.union(loaded.families):
            yield f"no family of networks is called {family!r:.80}"
        if collective not in set(Collective):
            yield f"no collective is called {collective!r:.80}"
        yield from undeclared(one)


def _grade_algorithms(
    server: SubmissionServer,
    algorithms: Sequence[Registered],
    given: GivenNetworks,
    options: GradeOptions,
    progress: Progress,
) -> Iterator[GradedPart]:
    if not algorithms:
        return
    with server.elsewhere() as elsewhere:
        _require_confined(elsewhere, options)
        for described in algorithms:
            networks = _networks_for(described.key[0], given, options)
            grader = AlgorithmGrader(
                server, elsewhere, described, networks, options.port_models, options.within, progress
            )
            name = " ".join(described.key[1:])
            yield GradedPart("algorithm", name, [network.name for network in networks], grader.grade())
        server.note(elsewhere.protection)


@contextmanager
def _loading(server: SubmissionServer, mark: Mark) -> Iterator[SubmissionProcess | None]:
    """Yield a process that has loaded the file; None if the process ended first: that is a finding of `mark`."""
    try:
        process = server.process()
    except SubmissionEndedError as error:
        mark.add([str(error)])
        yield None
        return
    except GradingTimeError as error:
        mark.stopped = str(error)
        yield None
        return
    with process:
        yield process


def _given_networks(process: SubmissionProcess, families: Mapping[str, Sequence[str]]) -> GivenNetworks:
    found = {}
    for family, examples in families.items():
        mark = Mark("links", "labels are different, links lead back, and the network is connected")
        networks = []
        if not examples:
            mark.add([f"{family}: it names no small_examples"])
        for name in examples[:MOST_NETWORKS]:
            try:
                answer = process.ask("network", topology=name)
                problem = answer.problem
                network = None if problem else GivenNetwork(name, answer.result)
            except (SubmissionEndedError, ScenarioError) as error:
                problem, network = str(error), None
            problems = [f"{name}: {problem}"] if network is None else network.problems()
            if mark.add(problems) and network is not None:
                networks.append(network)
            if network is None:
                break
        found[family] = (networks, mark)
    return found


def _networks_for(family: str, given: GivenNetworks, options: GradeOptions) -> Sequence[Topology]:
    """Return several small networks of the family, unless the command names some."""
    if family in given:
        if options.networks:
            allowed = f"the algorithm is for {family}, which the file defines; without --topology it is graded there"
            raise ScenarioError("topology", options.networks[0].name, allowed)
        return given[family][0]
    if options.networks:
        fitting = [network for network in options.networks if family in (ANY_FAMILY, network.family)]
        if not fitting:
            raise ScenarioError("topology", options.networks[0].name, f"the algorithm is for {family}")
        return fitting
    names = ANY_NETWORKS if family == ANY_FAMILY else FAMILIES[family].small_examples
    networks = [parse_topology(name) for name in names]
    small = [network for network in networks if network.order <= LARGEST_ORDER]
    return small if family == ANY_FAMILY else small[:MOST_NETWORKS]


def _grade_tree_source(server: SubmissionServer, source: str, options: GradeOptions) -> list[GradedPart]:
    if not options.networks:
        raise ScenarioError("topology", None, "trees are trees of a network: give --topology NET")
    subjects = []
    for topology in options.networks:
        loading = Mark("answers", "the parent function answers for every tree and node")
        marks = [loading]
        with _loading(server, loading) as process:
            if process is not None:
                try:
                    labels = [topology.label(rank) for rank in topology.ranks()]
                    answer = process.ask("parents", topology=topology.name, source=source, labels=labels)
                    tried = [*process.load_calls, *process.refused_calls()]
                    loading.add([answer.problem] if answer.problem else [f"it tried {each}" for each in tried])
                    if answer.problem is None:
                        marks += grade_trees(topology, answer.result.trees, options.properties)
                except SubmissionEndedError as error:
                    loading.add([str(error)])
                except GradingTimeError as error:
                    loading.stopped = str(error)
        subjects.append(GradedPart("trees", source, [topology.name], marks))
    return subjects

"""Registration of algorithms: a plug-in uses the decorator of the built-in ones."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from coordinator.cli.listing import AlgorithmsCommand
from coordinator.scenario.plugins import load_plugins
from emunode.algorithms.base import ALGORITHMS, Algorithm, check_metrics
from emunode.algorithms.claims import METRICS, Claim
from emunode.algorithms.eisenstein_jacobi.allgather import ThreePhase
from emunode.algorithms.flooding import Flood
from emunode.algorithms.hypercube.broadcast import BinomialBroadcast
from emunode.algorithms.registry import ORDER, algorithms, registered
from emunode.algorithms.transforms import backwards
from emunode.errors import EmulatorError, RegistrationError, ScenarioError
from emunode.model import Collective
from emunode.registry import register
from tests.helpers.support import failures, run_scenario


class PlugIn(BinomialBroadcast):
    """A broadcast that somebody else wrote."""

    name = "plug-in"
    citation = "a test"


def test_no_class_has_a_bare_partial() -> None:
    """Python 3.14 binds an attribute that is a partial to instances of the class, like a function."""
    assert isinstance(vars(ThreePhase)["trees_class"], staticmethod)
    classes = {base for _, entry in registered() for base in entry.__mro__}
    bare = [f"{each.__name__}.{name}" for each in classes for name in vars(each) if is_partial(vars(each)[name])]
    assert bare == []


def is_partial(value: object) -> bool:
    return isinstance(value, partial)


@pytest.fixture
def plug_in() -> Iterator[type[Algorithm]]:
    register(PlugIn)
    yield PlugIn
    ALGORITHMS.remove(PlugIn)


@pytest.mark.usefixtures("plug_in")
def test_a_registered_algorithm_runs_and_is_listed_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = run_scenario(topology="hypercube:3", collective="broadcast", algorithm="plug-in", driver="memory")
    assert result.verdict == "holds", failures(result)
    names = list(algorithms("hypercube", Collective.BROADCAST))
    assert names[names.index("plug-in") + 1 :] == list(algorithms("any", Collective.BROADCAST))
    AlgorithmsCommand(topology="hypercube", collective=Collective.BROADCAST)()
    assert "plug-in" in capsys.readouterr().out


def test_an_algorithm_is_gone_once_removed(plug_in: type[Algorithm]) -> None:
    ALGORITHMS.remove(plug_in)
    with pytest.raises(ScenarioError, match="invalid algorithm 'plug-in': broadcast on hypercube is done by: brg"):
        run_scenario(topology="hypercube:3", collective="broadcast", algorithm="plug-in", driver="memory")
    register(plug_in)


@pytest.mark.usefixtures("plug_in")
def test_an_algorithm_with_the_same_key_is_refused() -> None:
    class Other(PlugIn):
        pass

    with pytest.raises(RegistrationError, match=r"Other is called 'hypercube broadcast plug-in', .* by .*\.PlugIn"):
        register(Other)
    derived = register(backwards(PlugIn))  # the same name, but a reduce
    assert algorithms("hypercube", Collective.REDUCE)["plug-in"] is derived
    ALGORITHMS.remove(derived)


def test_an_algorithm_of_a_family_precedes_its_namesake() -> None:
    class OwnFlood(Flood):
        family = "star"

    register(OwnFlood)
    try:
        assert algorithms("star", Collective.BROADCAST)["flood"] is OwnFlood
        assert algorithms("ej", Collective.BROADCAST)["flood"] is Flood
    finally:
        ALGORITHMS.remove(OwnFlood)


def test_every_algorithm_of_the_package_has_a_place_in_the_lists() -> None:
    assert {entry.name for _, entry in registered()} == set(ORDER)
    assert len(ORDER) == len(set(ORDER))


def outcome_of(program: str) -> str:
    """Run a program in an interpreter that has imported nothing of the package; returns its output and errors."""
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=240, check=False
    )
    return done.stdout + done.stderr


def test_the_modules_declared_for_a_scope_register_all_of_it() -> None:
    """Each scope alone, in a process of its own, against the registry with everything imported."""
    program = """
        import os
        from importlib import import_module
        from emunode.algorithms.base import ALGORITHMS
        from emunode.algorithms.registry import MODULES
        from emunode.topologies import registry as topologies
        from emunode.topologies.base import FAMILIES

        def apart(look):
            read, write = os.pipe()
            if not os.fork():
                os.write(write, " ; ".join(look()).encode())
                os._exit(0)
            os.close(write)
            with open(read) as found:
                lines = sorted(filter(None, found.read().split(" ; ")))
            os.wait()
            return lines

        def registered(module):
            import_module(f"emunode.algorithms.{module}")
            return sorted({f"{family} {collective}" for family, collective, _ in ALGORITHMS._entries})

        def of_scope(scope):
            return sorted(entry.name for entry in ALGORITHMS.within(scope))

        alone = {
            (family, collective): apart(lambda: of_scope((family, collective)))
            for family, modules in MODULES.items()
            for collective in sorted({name for names in modules.values() for name in names.split()})
        }
        for family, modules in MODULES.items():
            for module, collectives in modules.items():
                found = apart(lambda: registered(module))
                for collective in collectives.split():
                    if f"{family} {collective}" not in found:
                        print(f"{module} registers no {collective} on {family}")
        for name, module in topologies.MODULES.items():
            if FAMILIES[name].__module__ != f"emunode.topologies.{module}":
                print(f"{module} does not define {name}")
        together = {}
        for family, collective, name in ALGORITHMS:
            together.setdefault((family, str(collective)), []).append(name)
        if {scope: sorted(names) for scope, names in together.items()} != alone:
            print("differs:", {scope for scope in together if sorted(together[scope]) != alone.get(scope)})
        if list(FAMILIES) != list(topologies.MODULES):
            print("the families are not in the order of their table")
    """
    assert outcome_of(program) == ""


def test_only_the_family_that_is_asked_for_is_imported() -> None:
    program = """
        import sys
        from emunode.algorithms.registry import find_algorithm
        from emunode.model import Collective, CollectiveSpec
        from emunode.topologies.registry import parse_topology
        spec = CollectiveSpec("star:4", Collective.BROADCAST, "edt", 0)
        print(find_algorithm(parse_topology("star:4"), spec).name)
        print([name for name in sys.modules if "algorithms.hypercube" in name or "algorithms.eisenstein" in name])
        print("emunode.topologies.jellyfish" in sys.modules)
    """
    assert outcome_of(program) == "edt\n[]\nFalse\n"


def test_a_plug_in_that_clashes_with_an_import_takes_nothing() -> None:
    program = """
        from emunode.registry import recorded, register, withdraw
        from emunode.algorithms.registry import ALGORITHMS
        from emunode.errors import RegistrationError
        with recorded() as additions:
            from emunode.algorithms.flooding import Flood
            class Mine(Flood):
                name = "mine"
            register(Mine)
        print([entry.__name__ for _, entry in additions])
        withdraw(additions)
        class Taken(Flood):
            family, name = "star", "edt"
        try:
            register(Taken)
        except RegistrationError as error:
            print(error)
        print(("any", "broadcast", "flood") in ALGORITHMS, ("any", "broadcast", "mine") in ALGORITHMS)
    """
    owner = "emunode.algorithms.star.edge_disjoint.DisjointTreesBroadcast"
    assert outcome_of(program).splitlines() == [
        "['Mine']",
        f"algorithm __main__.Taken is called 'star broadcast edt', a name already taken by {owner}",
        "True False",
    ]


def test_an_algorithm_without_a_family_or_a_rule_is_refused() -> None:
    class Incomplete(Algorithm):
        name, citation, collective = "incomplete", "a test", Collective.BROADCAST

    with pytest.raises(RegistrationError, match=r"Incomplete does not define family, claims, rule"):
        register(Incomplete)


@pytest.mark.parametrize(
    ("name", "value", "now"),
    [
        ("precomputed", True, "needs = frozenset({Need.TABLE})"),
        ("visits_all", True, "needs = frozenset({Need.EVERY_NODE})"),
        ("some_networks", False, "needs = frozenset({Need.SPECIAL_LINKS})"),
        ("cuts_vector", True, "needs = frozenset({Need.BLOCKS})"),
        ("packs", True, "needs = frozenset({Need.OPEN_CAPACITY})"),
        ("fixed_steps", True, "timing = Timing.FIXED"),
        ("keeps_time", False, "timing = Timing.ADAPTIVE"),
        ("goes_by_arrivals", False, "no member: docs/extend/from-0.3.md"),
    ],
)
def test_an_old_attribute_is_refused_with_its_new_name(name: str, value: bool, now: str) -> None:
    with pytest.raises(RegistrationError, match=rf"Older: {name} is now {re.escape(now)}"):
        type("Older", (Flood,), {name: value})


def test_an_old_plug_in_is_refused_with_the_new_name(tmp_path: Path) -> None:
    file = tmp_path / "older.py"
    file.write_text("from emunode.algorithms.flooding import Flood\n\nclass Older(Flood):\n    precomputed = True\n")
    with pytest.raises(EmulatorError, match=r"precomputed is now needs = frozenset\(\{Need\.TABLE\}\)"):
        load_plugins([str(file)])


def test_an_algorithm_for_an_unknown_family_is_refused() -> None:
    class Elsewhere(PlugIn):
        name, family = "elsewhere", "hypercubes"

    with pytest.raises(
        RegistrationError, match=r"unknown family 'hypercubes'; known are: star, hypercube, ej, .*, any"
    ):
        register(Elsewhere)
    assert ("hypercubes", "broadcast", "elsewhere") not in ALGORITHMS


class MisspeltClaim(PlugIn):
    """A claim about a metric that does not exist."""

    name = "misspelt"

    def claims(self) -> list[Claim]:
        return [*super().claims(), Claim("segmentz", 4, "==", "a paper")]


class MisspeltStructure(PlugIn):
    name = "misspelt"

    def structure_claims(self) -> list[Claim]:
        return [Claim("segmentz", 4, "==", "a paper")]


class MisspeltBound(Flood):
    """A misspelt claim over faults, on one family of several."""

    name, family = "misspelt", "any"

    def claims_with_faults(self, *faults: Any) -> list[Claim]:
        name = "segmentz" if self.topology.family == "ej" else "segments"
        return [*super().claims_with_faults(*faults), Claim(name, 4, "==", "a paper")]


@pytest.mark.parametrize("entry", [MisspeltClaim, MisspeltStructure, MisspeltBound])
def test_a_claim_about_an_unknown_metric_is_not_registered(entry: type[Algorithm]) -> None:
    with pytest.raises(RegistrationError) as error:
        register(entry)
    assert str(error.value).startswith(f"algorithm {__name__}.{entry.__name__} (misspelt): ")
    assert "unknown metric 'segmentz': did you mean 'segments'" in str(error.value)
    assert entry not in ALGORITHMS.values()


@pytest.mark.exhaustive(one_in=10)
@pytest.mark.parametrize("entry", ALGORITHMS.values(), ids=map("-".join, ALGORITHMS))
def test_algorithms_of_the_package_claim_known_metrics(entry: type[Algorithm], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not checked at registration: that would slow down every command."""
    named: set[str] = set()
    post_init = Claim.__post_init__

    def note(claim: Claim) -> None:
        named.add(claim.name)
        post_init(claim)

    monkeypatch.setattr(Claim, "__post_init__", note)
    check_metrics(entry)
    assert named
    assert named <= METRICS

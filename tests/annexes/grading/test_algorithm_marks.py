"""Marks of algorithms: of wrong ones the grade names node and reason, right ones pass under any name."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

from coordinator.annexes.grading.algorithm_marks import fewest_steps
from coordinator.annexes.grading.answers import Opened
from coordinator.annexes.grading.marks import MarkVerdict
from coordinator.annexes.grading.refereed_run import JUDGED, RefereedRun
from coordinator.annexes.grading.scaffold import algorithm_text
from coordinator.annexes.grading.session import own_claims
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import make_scenario
from emunode.algorithms.claims import Claim
from emunode.algorithms.registry import algorithms, find_algorithm
from emunode.model import Collective, PortModel
from emunode.topologies.registry import parse_topology
from tests.annexes.grading.submissions import findings, flood, graded, receive
from tests.helpers.scenarios import every_algorithm

WRONG = {
    "in the same step": (
        flood(receive("sends = [(step, port, segment) for _, port, segment in sends]")),
        r"model: star:3, all-port, 123: 213 sent in step 1 what arrived in step 1: the first possible step is 2",
    ),
    "port that is not there": (
        flood(receive("sends = [(when, 7, segment) for when, _, segment in sends]")),
        r"model: .* sends over port 7 in step 2; permutation star graph S_3 has ports 0\.\.1",
    ),
    "node that does not forward": (
        flood(receive("if self._view.rank in (1, 2, 3, 4): sends = []")),
        r"delivery: star:3, all-port, 123: not reached: 132, 312",
    ),
    "invented message": (
        flood("""
            def start(self):
                yield from super().start()
                if self._view.rank == 5:
                    yield 1, 0, (self._algorithm.spec.source, -1, 0, 0, bytes(720))
        """),
        r"model: star:3, all-port, 123: \w+ in step 1 sends segment 0 of 123, which it has not received before",
    ),
    "altered message": (
        flood(receive("sends = [(when, port, (*segment[:4], bytes(720))) for when, port, segment in sends]")),
        r"model: .* in step 2 sends segment 0 of 123 with other bytes than its origin",
    ),
    "too many ports": (
        flood(algorithm="port_models = (PortModel.ONE_PORT,)"),
        r"model: star:3, one-port, 123: 123 sends on ports \[0, 1\] and receives on ports \[\] in step 1; .* not one-port",
    ),
    "too much in a packet": (
        flood(
            "def start(self):\n    return [send for send in super().start() for _ in range(2)]",
            "link_capacity = 1",
        ),
        r"model: .*123 sends 2 segments on port 0 in step 1; a packet holds 1",
    ),
    "false claim": (
        flood(algorithm="def claims(self):\n    return [Claim('steps', 2, '<=', 'me')]"),
        r"claims: star:3, all-port, 123: claims steps <= 2, measured 3",
    ),
    "false redundancy": (
        flood(receive("sends = [send for send in sends if self._view.rank != 2]"), "tolerated_faults = 1"),
        r"faults: star:3, all-port, \d+, redundancy 1, (crash|down):\S+: not reached: \d+",
    ),
    "refuses its own port model": (
        flood(algorithm="""
            port_models = (PortModel.ALL_PORT, PortModel.EXCHANGE)
            def validate(self):
                self.port_models = (PortModel.ALL_PORT,)
                super().validate()
        """),
        r"model: star:3, exchange, 123: refused: invalid port_model",
    ),
    "exception": (
        flood(receive("sends = sends[99]")),
        r"model: star:3, all-port, 123: in step 2: \d{3}: line \d+: IndexError",
    ),
    "endless": (
        flood(receive("sends = [(step + 1, packets[0][0], packets[0][1][0])]")),
        r"model: .* it does not end: in step 320 there are still sends, by \d{3}",
    ),
    "send before the first step": (
        flood("def start(self):\n    return [(0, *send[1:]) for send in super().start()]"),
        "model: star:3, all-port, 123: 123 sends in step 0; the first step is 1",
    ),
    "no send at all": (
        flood(receive("sends = [(step + 1.5, port, segment) for _, port, segment in sends]")),
        r"model: star:3, all-port, 123: in step 2: 213: TypeError: a send is \(step, port, segment\)",
    ),
    "port model that does not exist": (
        flood(algorithm="port_models = ('two-port',)"),
        "loads: mine: port_models has 'two-port'; expected some of all-port",
    ),
    "claim that is no number": (
        flood(algorithm="def claims(self):\n    return [Claim('steps', 'three', '<=', 'me')]"),
        "claims: .* claims steps <= 'three', which is not a number",
    ),
    "error that cannot be shown": (
        "class E(Exception):\n    def __str__(self): raise self\nraise E\n",
        "loads: line 3: E: its text cannot be read",
    ),
    "answers that are malformed": (
        flood(after="""
            from coordinator.annexes.grading.session import SubmissionSession
            SubmissionSession.answer = lambda *_: {"refused": 5, "denied": 7}
        """),
        "limits: .*malformed answer",
    ),
    "shared dictionary": (
        flood(
            receive("""
                mine = self._view.rank
                BOARD.add(mine)
                neighbour = self._algorithm.topology.neighbour
                sends = [send for send in sends if neighbour(mine, send[1]) not in BOARD]
            """),
            after="BOARD = set()",
        ),
        r"locality: star:3, all-port, \d+, (in another process|\d+ alone): in step \d \d+ sends on ports",
    ),
    "clock": (
        flood(receive("sends = sends if time.monotonic() < 100_000_000 else []")),
        r"locality: .* in another process: in step 2 \d+ sends on ports",
    ),
    "chance": (
        flood(receive("sends = [send for send in sends if random.random() < 0.5]")),
        r"locality: .* in another process: in step \d \d+ sends on ports",
    ),
    "syntax": ("def broken(:\n", r"loads: line 1: SyntaxError"),
    "import": ("import no_such_module\n", r"loads: line 1: ModuleNotFoundError"),
    "registers nothing": ("x = 1\n", r"loads: it registers nothing"),
    "missing method": (
        flood(after="""
            from emunode.algorithms.base import Algorithm
            @register
            class A(Algorithm):
                family, name, collective, citation = "star", "a", Collective.BROADCAST, "me"
        """),
        r"loads: line \d+: RegistrationError: .* does not define claims, rule",
    ),
    "name that is taken": (flood(algorithm="name = 'edt'"), r"loads: line \d+: RegistrationError: .*'star broadcast edt'"),
    "exit at import": ("import sys\nsys.exit(0)\n", r"loads: line 2: SystemExit: 0"),
}  # fmt: skip


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_wrong_submission_is_told_why(tmp_path: Path, text: str, expected: str) -> None:
    found = graded(tmp_path, text)
    assert found.verdict is MarkVerdict.FAIL
    assert re.search(expected, findings(found)), findings(found)


BUILT_IN = """
    from emunode.algorithms.registry import algorithms
    from emunode.model import Collective
    from emunode.registry import register

    Old = algorithms("star", Collective.{collective})["{name}"]

    @register
    class Mine(Old):
        name = "mine"
"""


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("collective", "name"), [("REDUCE_SCATTER", "edt-dfs"), ("UNICAST", None), ("ALLGATHER", "edt-dfs-ack")]
)
def test_built_in_algorithms_pass_under_another_name(tmp_path: Path, collective: str, name: str | None) -> None:
    """Also those that fold contributions, have one target, or send acknowledgements."""
    name = name or next(iter(algorithms("star", Collective[collective])))
    found = graded(tmp_path, dedent(BUILT_IN).format(collective=collective, name=name))
    assert (findings(found), found.verdict) == ("", MarkVerdict.PASS)


def test_contribution_that_is_folded_three_times_is_found(tmp_path: Path) -> None:
    """The exclusive or of three copies is that of one, so contributions are counted too."""
    text = algorithm_text("mine", "star", Collective.REDUCE, "mine.py")
    again = """
    from emunode.algorithms.base import Rule

    class Again(Rule):
        def __init__(self, rule): self.rule = rule
        def three(self, sends): return [(step + more, *rest) for step, *rest in sends for more in (0, 20, 40)]
        def start(self): return self.three(self.rule.start())
        def receive(self, step, packets): return self.three(self.rule.receive(step, packets)) if step < 20 else []

    before = Mine.rule
    Mine.rule = lambda self, view: Again(before(self, view))
    """
    found = graded(tmp_path, text + dedent(again))
    assert re.search(r"delivery: .* the result at \d{3} has the contribution of .* more than once", findings(found))


@pytest.mark.parametrize("ports", PortModel)
@pytest.mark.parametrize("network", ["hypercube:3", "star:3", "ring:5", "complete:5"])
def test_the_bound_of_a_grade_is_that_of_every_algorithm(network: str, ports: PortModel) -> None:
    """No algorithm of the same job needs fewer steps than any other one is compared with."""
    topology = parse_topology(network)
    for collective in map(Collective, JUDGED):
        bounds, steps = [0.0], []
        for case in every_algorithm(f"{network} {collective}", port_model=ports, message_bytes=720):
            algorithm = case.plan.algorithm
            opened = Opened(
                segments_per_message=algorithm.segments_per_message, link_capacity=algorithm.link_capacity,
                max_redundancy=1, tolerated_faults=0, ack_bytes=0, claims=[], late=[], due=None,
            )  # fmt: skip
            found = fewest_steps(RefereedRun(topology, case.plan.spec, opened))
            steps.append(case.summary["steps"])
            if found is not None:
                bounds.append(found[0])
                assert "of every algorithm" in found[1] or " for packets of " in found[1]
        assert max(bounds) <= min(steps, default=0), collective


def test_inherited_claims_do_not_dilute_an_own_one() -> None:
    spec = make_plan(make_scenario({"topology": "star:3", "collective": "broadcast", "algorithm": "flood"})).spec
    topology = parse_topology("star:3")
    flooding = find_algorithm(topology, spec)
    own = Claim("steps", 9, "==", "me")

    class Mine(flooding):  # type: ignore[misc, valid-type]
        def claims(self) -> list[Claim]:
            return [*super().claims(), own]

    inherited = flooding(topology, spec)
    assert len(inherited.claims()) > 1
    assert own_claims(inherited) == inherited.claims()
    Mine.__module__ = "mine"
    assert own_claims(Mine(topology, spec)) == [own]

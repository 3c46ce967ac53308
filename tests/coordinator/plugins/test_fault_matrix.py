"""Every kind of fault under every analysis: right, or refused in one sentence.

The right figures come from a walk of this test's own over the three hops of a broadcast in Q_2, with what each kind does to
a packet written once more below.
"""

import json
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl
import pytest

from tests.helpers.command_line import ROOT, Call, Ended
from tests.helpers.support import forget_plugins

EIGHT: Final = ROOT / "tests" / "plugins" / "eight_faults.py"
PAGE: Final = ROOT / "docs" / "extend" / "fault-kind.md"
SBT: Final = "--topology hypercube:2 --collective broadcast --algorithm sbt --source 00 --driver memory"
HOPS: Final = ((1, "00", "01", 0), (1, "00", "10", 1), (2, "01", "11", 1))
"""Step, sender, receiver and the sender's port of the broadcast by the spanning binomial tree of Q_2."""
NODES: Final = ("01", "10", "11")
LINKS: Final = (("00", "01"), ("00", "10"), ("01", "11"), ("10", "11"))


class Truth(NamedTuple):
    """The behaviour of a kind, as this test knows it."""

    value: str = ""
    passes: Callable[[int, int], float] | None = None
    """For a kind of links: the probability that a packet of (step, port) arrives intact."""
    relays: Callable[[int], float] | None = None
    """For a kind of nodes: the probability that a copy that the node passes on by a port arrives intact."""
    stated: bool = True
    """Whether it states its effects."""
    lies: bool = False
    draws: bool = False
    """Whether it draws random numbers, though no figure depends on them."""
    stops: bool = False
    """Whether it does nothing but stop packets, so that `worst` searches it and cuts prove something."""

    @property
    def is_certain(self) -> bool:
        """Whether one run of a set of faults says everything about the set."""
        chances = {
            *(relayed(self, port) for port in (0, 1)),
            *(passed(self, step, port) for _, step, port in CROSSINGS),
        }
        return self.stated and not self.draws and chances <= {0, 1}


CROSSINGS: Final = [(sender, step, port) for step, sender, _, port in HOPS]


def passed(truth: Truth, step: int, port: int) -> Fraction:
    return Fraction(1 if truth.passes is None else truth.passes(step, port))


def relayed(truth: Truth, port: int) -> Fraction:
    return Fraction(1 if truth.relays is None else truth.relays(port))


def links(chance: float, value: str = "", *, stated: bool = True, stops: bool = False) -> Truth:
    return Truth(value, passes=lambda *_: chance, stated=stated, stops=stops)


def nodes(chance: float, value: str = "", *, draws: bool = False, stops: bool = False) -> Truth:
    return Truth(value, relays=lambda _: chance, draws=draws, stops=stops)


KINDS: Final = {
    "crash": nodes(0, stops=True), "hang": nodes(0, stops=True), "silent": nodes(0, stops=True),
    "silent-ports": nodes(0.75, "0.25"), "silent-segments": nodes(0.75, "0.25"), "selective": nodes(0, "0.25", draws=True),
    "byzantine": nodes(0), "equivocate": nodes(0), "collude": nodes(0),
    "down": links(0, stops=True), "loss": links(0.75, "0.25"), "corrupt": links(0.75, "0.25"), "duplicate": links(1, "1"),
    "delay": links(1, "2"), "drop": links(0, "1"),
    # Of the documentation; a packet crosses each link once.
    "drop-every": links(1, "2", stated=False),
    "even-loss": Truth("2", passes=lambda step, _: step % 2, stated=False),
    "fog": links(0.5), "forge-odd": Truth(relays=lambda port: (port + 1) % 2, stated=False),
    # Of `tests/plugins/eight_faults.py`.
    "murk": links(0.5, stated=False), "haze": links(0.75), "feint": Truth(passes=lambda step, _: step % 2, lies=True),
    "squall": Truth(passes=lambda step, _: step != 1), "nap": nodes(0, stops=True), "wall": links(0, stops=True),
    "smudge": links(0), "lag": links(1),
}  # fmt: skip
LEFT_OUT: Final = ("recover", "up", "heal", "slow", "slow-link", "jitter", "drift")
"""Repairs, and kinds that need the timed clock: no set of faults in steps has them."""


def delivered(truth: Truth, place: str | tuple[str, str]) -> tuple[Fraction, int]:
    """Return the expected deliveries under one fault at a place, and the healthy nodes that one is due to."""
    chances = {"00": Fraction(1)}
    for step, sender, receiver, port in HOPS:
        chance = chances[sender]
        if isinstance(place, tuple):
            chance *= passed(truth, step, port) if place == (sender, receiver) else 1
        elif place == sender:
            chance *= relayed(truth, port)
        chances[receiver] = chance
    healthy = [node for node in NODES if node != place]
    return sum((chances[node] for node in healthy), Fraction(0)), len(healthy)


def ratios(truth: Truth) -> list[Fraction]:
    """Return the delivery ratio under a fault at each place, in the order of the places."""
    counts = [delivered(truth, place) for place in (LINKS if truth.relays is None else NODES)]
    return [reached / due for reached, due in counts]


@pytest.fixture
def plugins(tmp_path: Path) -> Iterator[str]:
    """Return flags that name two plug-ins: the kinds of the documentation, and eight of this test."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "of_the_page.py"
    file.write_text("\n".join(block for block in blocks if "@register" in block))
    yield f"--plugin={file} --plugin={EIGHT}"
    forget_plugins()


def asked(call: Call, line: str, *statuses: int) -> Ended:
    """Run a command, which ends as it should: with one of these statuses, and without an internal error."""
    ended = call(line)
    assert ended.status in statuses, (line, ended)
    assert "Traceback" not in ended.err
    assert "internal error" not in ended.err
    return ended


def refused(call: Call, line: str, kind: str) -> None:
    """Run a command that names a kind as the reason why it is refused, in one line."""
    ended = asked(call, line, 2)
    assert len(ended.err.strip().splitlines()) == 1
    assert kind in ended.err, (line, ended.err)


def test_every_kind_is_in_the_table(call: Call, plugins: str) -> None:
    rows = call(f"list faults --json {plugins}").data
    assert {row["kind"] for row in rows if row["use"] == "fault"} == {*KINDS, *LEFT_OUT}
    for kind in LEFT_OUT:
        for line in (
            f"run {SBT} --fault random:{kind}=1",
            f"campaign {SBT} --faults {kind}=1",
            f"certify {SBT} --faults {kind}=1",
        ):
            refused(call, f"{line} {plugins}", kind)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_and_what_is_made_of_it(kind: str, call: Call, plugins: str) -> None:
    truth = KINDS[kind]
    place = "01" if truth.relays is not None else ("01", "11")
    where = place if isinstance(place, str) else "~".join(place)
    fault = f"{kind}:{where}{truth.value and ':'}{truth.value}@1"
    run = f"{SBT} --fault {fault} {plugins}"
    asked(call, f"plan {run}", 0)
    # A late crash has no effect: it does not make a healthy node a faulty one.
    for name, late in (("one", ""), ("two", "--fault crash:10@1000")):
        asked(call, f"run {run} {late} --out {name}", 0, 3)
    summary = json.loads(Path("one/summary.json").read_text())
    expected, due = delivered(truth, place)
    assert summary["expected_deliveries"] == due
    assert summary["illegal_hops"] == 0
    if truth.is_certain or kind in ("drop-every", "even-loss", "forge-odd"):
        assert summary["intact_deliveries"] == expected
    exact = {claim["name"] for claim in summary["claims"] if claim["relation"] == "=="} - {"illegal_hops"}
    assert not exact or truth.stated
    beside = json.loads(Path("two/summary.json").read_text())
    assert beside["without_effect"] == (["crash:10@1000"] if truth.stated else [])
    assert beside["expected_deliveries"] == due - (not truth.stated)
    asked(call, f"verify one two {plugins}", 0, 3 if summary["verdict"] == "undecided" else 0)
    explained = asked(call, f"verify one --explain 11@3 {plugins}", 0, 3).out
    assert "a fault that has ended" not in explained
    asked(call, f"verify one --inevitable 11 {plugins}", 0, 3)
    asked(call, f"report one {plugins}", 0)
    asked(call, f"compare one one {plugins}", 0)
    for more in ("--heal-at 5", "--on-failure shrink --fault-knowledge detect:4", "--repair next-port", "--reliable"):
        asked(call, f"run {run} {more} --out more", 0, 2, 3)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_campaign_by_each_engine_and_strategy(kind: str, call: Call, plugins: str) -> None:
    truth = KINDS[kind]
    value = f"{truth.value and ':'}{truth.value}"
    every = sum(ratios(truth)) / len(ratios(truth))
    found = {}
    for engine in ("messages", "auto", "exact"):
        line = f"campaign {SBT} --faults {kind}=1{value} --trials 150 --engine {engine} --out {engine} --json {plugins}"
        if engine == "exact" and not truth.stated:
            refused(call, line, kind)
            continue
        ended = asked(
            call, line, *(4 if engine != "messages" else 1,) if truth.lies else (0, 2 if engine == "exact" else 0)
        )
        if ended.status:
            assert ("theory predicts" in ended.out or "disagree" in ended.err) if truth.lies else kind in ended.err
            continue
        exactly = "all rows are computed exactly; [0-9]+ trials repeated with messages agree"
        assert re.fullmatch(f"{exactly}|messages", ended.data["engines"])
        found[engine] = ended.data["rows"][0]
        # Of 150 trials: five standard deviations of a mean of numbers from 0 to 1, or certain.
        assert abs(found[engine]["delivery_ratio"] - every) < 5 * 0.5 / 150**0.5
        assert (found[engine]["theory"] is None) or abs(found[engine]["theory"] - every) < 1e-9
        assert found[engine]["finding"] is None
        seeds = pl.read_parquet(f"{engine}/trials.parquet")["seed"]
        assert seeds.n_unique() == (1 if truth.is_certain else len(seeds))
        asked(call, f"verify {engine} {plugins}", 0)
    assert len({json.dumps([row["delivery_ratio"], row["guaranteed"]]) for row in found.values()}) == (not truth.lies)
    both = f"campaign {SBT} --vary algorithm=sbt,bfs-tree --faults all:{kind}=1{value} --trials 40"
    ended = asked(call, f"{both} --paired --coverage --out all --json {plugins}", int(truth.lies))
    row = next(row for row in ended.data["rows"] if row["algorithm"] == "sbt")
    assert row["trials"] == len(ratios(truth))
    residual = [each for each in ended.data["residual"] if each["variant"] == "sbt"]
    if truth.is_certain:
        assert row["delivery_ratio"] == row["ratio_low"] == row["ratio_high"]
        assert row["delivery_ratio"] == pytest.approx(float(every))
        assert [each["survived"] for each in residual] == [{"1": sum(ratio == 1 for ratio in ratios(truth))}]
    else:
        assert row["ratio_low"] < row["ratio_high"]
        assert residual == []
    assert ended.data["coverage"]
    asked(call, f"verify all {plugins}", 0)
    shares = f"campaign {SBT} --faults bernoulli:{kind}=0.3{value} --trials 40 --out shares {plugins}"
    asked(call, shares, 0, *((4,) if truth.lies else ()))
    given = f"{kind}:{'10' if truth.relays else '10~11'}{value}@1"
    asked(call, f"campaign {SBT} --fault {given} --faults nodes=0..1 --trials 9 {plugins}", 0)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("kind", KINDS)
def test_the_worst_set_and_certificates(kind: str, call: Call, plugins: str) -> None:
    truth = KINDS[kind]
    value = f"{truth.value and ':'}{truth.value}"
    run = f"run {SBT} --fault worst:{kind}=1{value} --out worst {plugins}"
    campaign = f"campaign {SBT} --faults worst:{kind}=1{value} --out worst-campaign {plugins}"
    if truth.stops:
        asked(call, run, 0)
        (search,) = json.loads(Path("worst/summary.json").read_text())["fault_searches"]
        most = max(
            due - reached for reached, due in (delivered(truth, at) for at in (LINKS if truth.passes else NODES))
        )
        assert f"{most} healthy node{'s miss' if most > 1 else ' misses'} a message" in search
        asked(call, campaign, 0)
        asked(call, f"verify worst worst-campaign {plugins}", 0)
    elif truth.lies:
        assert "the search for the worst set and a run disagree" in asked(call, run, 4).err
        assert "the search for the worst set and a run disagree" in asked(call, campaign, 4).err
    else:
        refused(call, run, kind)
        refused(call, campaign, kind)
    for method in ("--method runs --engine messages", "--method runs --engine exact", "--method cuts", ""):
        line = f"certify {SBT} --faults '{kind}<=1{value}' {method} --out made.json {plugins}"
        if not truth.is_certain:
            refused(call, line, kind)
            continue
        allowed = [0 if all(ratio == 1 for ratio in ratios(truth)) else 1]
        allowed += [4] if truth.lies and "messages" not in method else []
        ended = asked(call, line, *allowed, *((2,) if method else ()))
        if ended.status == 2:
            assert kind in ended.err or "paths alone" in ended.err
        elif ended.status < 2:
            asked(call, f"verify made.json {plugins}", 0)
    fault = f"{kind}:{'01' if truth.relays else '01~11'}{value}@1"
    hosts = SBT.replace("--driver memory", "--driver local --ranks-per-host 2")
    asked(call, f"certify --every-order {hosts} --fault {fault} {plugins}", 0)

"""Detection by silence: the examples, an independent simulation, and the promises of both detectors."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.faults.detection import PortDetector, StepDetection, Suspicion
from emunode.faults.injector import Faults
from emunode.faults.kinds import Crash, Delay, Down, Drop, Fault, Hang, Loss, Recover, Up, in_order
from emunode.model import Detection
from emunode.topologies.registry import parse_topology
from tests.helpers.support import examples

CUBE = parse_topology("hypercube:3")
RING = parse_topology("ring:4")


def changes(
    faults: Sequence[Fault], after: int, steps: int, doubling: bool = False, topology: object = CUBE
) -> list[Suspicion]:
    detection = StepDetection(topology, 5, Detection(after, doubling), topology.ranks())  # type: ignore[attr-defined,arg-type]
    return detection.advance(steps, faults)


# --- one port --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heard", "interval", "after", "suspected"),
    [
        # Signs of 0.1 every 1, in tenths: crash at 2.5, last heard 2.1; at 2.05, last heard 1.1; at 2.1, last heard 2.1.
        ([1, 11, 21], 10, 2, 41),
        ([1, 11], 10, 2, 31),
        ([], 10, 2, 20),
        ([1, 2, 3], 1, 1, 4),
    ],
)
def test_a_port_is_suspected_k_intervals_after_the_last_sign(
    heard: list[int], interval: int, after: int, suspected: int
) -> None:
    detector = PortDetector(Detection(after), 0)
    for moment in heard:
        detector.check(moment - 1, interval)
        detector.heard(moment)
    detector.check(suspected - 1, interval)
    assert not detector.suspected
    detector.check(suspected, interval)
    assert detector.suspected


# --- lock-step -------------------------------------------------------------------------------------------------------


def test_a_link_down_one_way_makes_its_sender_suspect() -> None:
    assert changes([Down(3, 0, 1)], 1, 9) == [Suspicion(4, 2, 1, suspected=True, silent=True)]
    both = changes([Down(3, 0, 1, 5), Down(3, 2, 1, 5)], 2, 20)
    assert [(each.step, each.rank, each.suspected) for each in both] == [
        (5, 2, True),
        (5, 0, True),
        (7, 2, False),
        (7, 0, False),
    ]


def test_a_port_is_live_again_after_a_sign() -> None:
    detection = StepDetection(CUBE, 0, Detection(1), CUBE.ranks())
    detection.advance(3, [Hang(2, 1, 4)])
    assert detection.live_ports(0) == (1, 2)
    assert detection.live_ports(1) == (0, 1, 2)
    detection.advance(6, [])
    detection.advance(7, [])
    assert detection.live_ports(0) == (0, 1, 2)


def test_the_counts_of_lost_packets_do_not_matter() -> None:
    assert not changes([Drop(1, 0, 0, 1)], 1, 20)


places = st.tuples(st.integers(0, 3), st.integers(0, 1))
steps_of = st.integers(1, 12)
some_faults = st.lists(
    st.one_of(
        st.builds(Hang, steps_of, st.integers(0, 3), st.just(0)),
        st.builds(
            lambda step, place, last: Down(step, place[0], place[1], step + last), steps_of, places, st.integers(0, 6)
        ),
        st.builds(lambda step, place: Up(step, *place), steps_of, places),
        st.builds(
            lambda step, place, rate: Loss(step, place[0], place[1], rate),
            steps_of,
            places,
            st.sampled_from([0.3, 0.7]),
        ),
        st.builds(
            lambda step, place, delay: Delay(step, place[0], place[1], delay), steps_of, places, st.integers(1, 3)
        ),
        st.builds(lambda step, rank: (Crash(step, rank), Recover(step + 4, rank)), steps_of, st.integers(0, 3)),
    ),
    max_size=4,
)


@settings(max_examples=examples(120))
@given(some_faults, st.integers(1, 3), st.booleans())
def test_it_agrees_with_a_plain_simulation(drawn: list[object], after: int, doubling: bool) -> None:
    faults: list[Fault] = []
    crashing: set[int] = set()
    for each in drawn:
        if isinstance(each, tuple):
            # One crash for each rank, as scenarios have it.
            if each[0].rank not in crashing:
                crashing.add(each[0].rank)
                faults += each
        elif isinstance(each, Hang):
            faults.append(Hang(each.step, each.rank, each.step + 3))
        else:
            faults.append(each)  # type: ignore[arg-type]
    whole = changes(in_order(faults), after, 30, doubling, RING)
    assert sorted(whole) == simulated(faults, after, doubling, 30)
    piecewise = StepDetection(RING, 5, Detection(after, doubling), RING.ranks())
    found: list[Suspicion] = []
    for step in range(1, 31):
        found += piecewise.advance(step, [fault for fault in in_order(faults) if fault.step == step])
    assert found == whole


class Simulation:
    """The same with a list of signs: every rank, every port and every step."""

    def __init__(self, after: int, doubling: bool) -> None:
        self.state = Faults(RING, 5)
        self.after, self.doubling = after, doubling
        self.places = [(rank, port) for rank in RING.ranks() for port in RING.ports(rank)]
        self.last = dict.fromkeys(self.places, 0)
        self.wait = dict.fromkeys(self.places, after)
        self.suspected = dict.fromkeys(self.places, False)
        self.under_way: list[tuple[int, int, int]] = []

    def dead(self, step: int, sender: int, port: int) -> bool:
        return self.state.silent(sender, step) or self.state.is_dead(step, sender, port)

    def forget(self, rank: int, step: int) -> None:
        for port in RING.ports(rank):
            place = rank, port
            self.last[place], self.wait[place], self.suspected[place] = step - 1, self.after, False

    def signs(self, step: int) -> set[tuple[int, int]]:
        """Return the ports that hear a sign in a step."""
        for sender, port in self.places:
            transit = self.state.transit(step, sender, port, ())
            if not self.dead(step, sender, port) and not transit.lost:
                self.under_way.append((step + transit.delay, sender, port))
        due = [each[1:] for each in self.under_way if each[0] == step]
        return {RING.end(*link) for link in due if not self.dead(step, *link)}

    def change(self, step: int, place: tuple[int, int], heard: bool) -> bool:
        """Update one port; returns whether its suspicion changes."""
        before = self.suspected[place]
        if heard:
            self.wait[place] *= 2 if before and self.doubling else 1
            self.last[place], self.suspected[place] = step, False
        elif self.last[place] + self.wait[place] <= step:
            self.suspected[place] = True
        return self.suspected[place] != before


def simulated(faults: Sequence[Fault], after: int, doubling: bool, steps: int) -> list[Suspicion]:
    """Return the changes before step `steps`, in order."""
    simulation, found = Simulation(after, doubling), []
    state = simulation.state
    for step in range(1, steps):
        begun = [fault for fault in in_order(faults) if fault.step == step]
        state.apply(begun)
        for fault in begun:
            if isinstance(fault, Recover):
                simulation.forget(fault.rank, step)
        signs = simulation.signs(step)
        for place in simulation.places:
            if not state.silent(place[0], step) and simulation.change(step, place, place in signs):
                peer, its_port = RING.end(*place)
                silent = state.silent(peer, step) or state.is_down(step, peer, its_port)
                found.append(Suspicion(step + 1, *place, simulation.suspected[place], silent))
    return sorted(found)

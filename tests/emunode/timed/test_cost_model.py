"""The cost of packets, and the times when ports are busy; no clock, no socket."""

import pytest

from emunode.model import PortModel
from emunode.timed.cost_model import LinearCostModel, PortOccupancy
from tests.emunode.timed.timetable_support import MS


@pytest.mark.parametrize(
    ("costs", "size", "nanoseconds"),
    [
        (LinearCostModel(5e-3, 1e-6), 64, 5_064_000),
        (LinearCostModel(5e-3, 1e-6), 0, 0),
        (LinearCostModel(8e-3, 8e-7, 1024), 1024, 8_819_200),
        (LinearCostModel(8e-3, 8e-7, 1024), 1025, 16_820_000),
        (LinearCostModel(0.0, 1e-9), 7, 7),
        (LinearCostModel(1e-3, 0.0), 2**20, MS),
    ],
)
def test_cost_of_a_packet(costs: LinearCostModel, size: int, nanoseconds: int) -> None:
    assert costs.nanoseconds(size) == nanoseconds


def test_a_busy_port_sends_one_packet_after_the_other() -> None:
    ports = PortOccupancy(PortModel.ALL_PORT, 3)
    assert [ports.depart(1, port, 5) for port in range(3)] == [0, 0, 0]
    assert ports.depart(2, 1, 7) == 5
    assert ports.depart(3, 1, 1) == 12


def test_all_ports_receive_at_once_until_the_last_receipt() -> None:
    ports = PortOccupancy(PortModel.ALL_PORT, 3)
    assert [ports.arrive(1, deadline, 5) for deadline in (9, 5, 5)] == [9, 5, 5]
    assert ports.depart(2, 0, 5) == 9


def test_over_one_port_sends_and_receipts_follow_each_other() -> None:
    ports = PortOccupancy(PortModel.ONE_PORT, 3)
    assert ports.depart(1, 0, 5) == 0
    assert ports.arrive(1, 5, 5) == 5
    assert ports.depart(2, 1, 20) == 5
    assert ports.arrive(2, 8, 5) == 10, "its sender began at 3, when this node was still receiving"
    assert ports.arrive(3, 11, 5) == 15, "though it is sending until 25"
    assert ports.depart(4, 2, 5) == 25


@pytest.mark.parametrize("model", [PortModel.EXCHANGE, PortModel.SEND_OR_RECEIVE])
def test_single_neighbour_models_receive_after_earlier_sends(model: PortModel) -> None:
    ports = PortOccupancy(model, 3)
    assert ports.depart(1, 0, 20) == 0
    assert ports.arrive(2, 7, 5) == 25
    assert ports.depart(3, 1, 5) == 25


def test_an_exchange_goes_both_ways_at_once() -> None:
    ports = PortOccupancy(PortModel.EXCHANGE, 3)
    assert ports.depart(1, 0, 20) == 0
    assert ports.arrive(1, 20, 20) == 20
    assert ports.depart(2, 1, 20) == 20
    assert ports.arrive(2, 40, 20) == 40

"""The members of `transit` that a kind of fault may use, under both clocks."""

from typing import Any

import pytest

import coordinator
from emunode.faults.kinds import Loss
from emunode.faults.transit import LinkTransit
from emunode.model import Port, Rank, Step


@pytest.mark.parametrize("clock", ["steps", "timed"])
def test_a_kind_sees_step_rank_and_port_of_every_packet(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of the hops in the journal of the same run: three segments down the binomial tree."""
    seen: list[tuple[Step, Rank, Port]] = []

    def note(_: Loss, transit: LinkTransit) -> None:
        seen.append((transit.step, transit.rank, transit.port))

    monkeypatch.setattr(Loss, "act", note)
    cube = coordinator.network("hypercube:3")
    timing: dict[str, Any] = {} if clock == "steps" else {"startup": "1ms", "per_byte": "1us"}
    run = cube.broadcast("sbt", segments=3, clock=clock, faults=["loss:000>010:0.5", "loss:010>110:0.5"], **timing)
    hops = run.journal.select("step", "sender", "port").rows()
    # the same packets again where a prediction is made
    assert {*seen} == {hop for hop in hops if hop[1:] in ((0, 1), (2, 2))}
    assert len({*seen}) == 6

"""Plans: how many hosts they need, the tables of their schedules, and the name of the folder of a run."""

import polars as pl
import pytest

from coordinator.planning.feasibility import why_impossible
from coordinator.planning.machine import RESERVED_DESCRIPTORS, Machine
from coordinator.planning.plan import NAME_BYTES, make_plan, run_time_of
from coordinator.planning.resources import descriptors_per_host, memory_bytes
from coordinator.results.tables import link_table, used_links
from emunode.algorithms.any_network.table_collective import TableCollective
from emunode.topologies.registry import parse_topology
from tests.helpers.any_network_support import hub
from tests.helpers.scenarios import Case

PACKETS = {
    "step": pl.Int32,
    "sender": pl.Int32,
    "port": pl.Int16,
    "receiver": pl.Int32,
    "segments": pl.UInt32,
    "bytes": pl.Int64,
}


# --- hosts -----------------------------------------------------------------------------------------------------------


def test_hosts_of_a_hub_are_as_many_as_its_real_link_ends_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.planning.plan.network_of", lambda _: hub(1000))
    machine = Machine(1000 + 100 + RESERVED_DESCRIPTORS, 2)
    plan = make_plan(Case("file:hub broadcast flood driver=local").scenario, machine=machine)
    assert plan.hosts <= 20
    assert descriptors_per_host(plan) <= machine.descriptor_limit


@pytest.mark.parametrize("topology", ["fat-tree:4", "mesh:3x4", "star:4"])
def test_every_link_end_is_one_row_of_the_table_of_links(topology: str) -> None:
    network = parse_topology(topology)
    idle = used_links(pl.LazyFrame(schema=PACKETS)).collect()
    rows = link_table(network, idle).select("sender", "port", "receiver").rows()
    assert rows == [(rank, port, peer) for rank in network.ranks() for port, peer in network.adjacent(rank)]


# --- names -----------------------------------------------------------------------------------------------------------


def test_the_folder_of_a_run_is_named_after_what_it_runs() -> None:
    plan = Case("star:4 broadcast flood").plan
    assert plan.name == "star-4-broadcast-flood"


def test_long_names_are_cut_and_stay_different() -> None:
    jumps = [",".join(map(str, range(1, last))) for last in (99, 100)]
    names = [Case(f"circulant:1000:{listed} broadcast flood").plan.name for listed in jumps]
    assert [len(name) for name in names] == [NAME_BYTES, NAME_BYTES]
    assert names[0][:150] == names[1][:150]
    assert names[0] != names[1]


# --- tables of precomputed schedules ---------------------------------------------------------------------------------


def test_memory_includes_the_tables_of_a_precomputed_schedule() -> None:
    plan = Case("jellyfish:30,4,1 allgather bfb driver=docker ranks_per_host=3").plan
    assert isinstance(plan.algorithm, TableCollective)
    hops = sum(len(leaving) for rows in plan.algorithm._tables for leaving in rows.values())
    assert hops == plan.algorithm.table_hops == 30 * 29
    assert memory_bytes(plan) > 11 * plan.algorithm.table_bytes > 11 * 100 * hops, "ten hosts and the coordinator"


def test_a_local_rule_has_no_tables() -> None:
    plan = Case("star:4 broadcast flood").plan
    assert plan.algorithm.table_bytes == 0


def test_a_schedule_whose_tables_do_not_fit_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Case("jellyfish:200,6,1 alltoall list-schedule driver=docker ranks_per_host=1").plan
    monkeypatch.setattr("coordinator.planning.machine.available_memory", lambda: 2**30)
    assert "GiB of them for the precomputed schedule in 201 processes" in str(why_impossible(plan))
    assert "table" not in vars(plan.algorithm)


# --- the time of a run without faults --------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["hypercube:3 broadcast sbt", "star:4 scatter balanced-tree", "ej:1+2 allgather bfb"])
def test_it_is_the_end_of_the_last_packet(line: str) -> None:
    case = Case(f"{line} clock=timed startup=1ms per_byte=10us")
    work_out = run_time_of(case.scenario)
    assert work_out is not None
    nanoseconds = work_out(case.plan.algorithm)
    assert nanoseconds == pytest.approx(float(case.summary["intended_seconds"]) * 1e9)


def test_lock_step_has_no_time() -> None:
    assert run_time_of(Case("hypercube:3 broadcast sbt").scenario) is None

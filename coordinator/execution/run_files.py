"""The files of a run directory that follow from its conclusion: tables, faults and the summary."""

from coordinator.execution.drive import ExecutionResult
from coordinator.history.journal import Journal
from coordinator.history.run_directory import RunDirectory
from coordinator.planning.plan import Plan
from coordinator.results.conclude import Conclusion
from coordinator.results.cut_off import faults_without_effect
from emunode.topologies.table import TableTopology


def write_conclusion(directory: RunDirectory, conclusion: Conclusion, summary: dict[str, object]) -> None:
    """Write every file but the scenario, the journal, the log and the report."""
    measurement = conclusion.measurement
    for name, table in {"timeline": conclusion.timeline, **measurement.tables}.items():
        if table is not None:
            table.write_parquet(directory.path / f"{name}.parquet")
    directory.write_json("faults.json", measurement.faults)
    for name, records in conclusion.records.items():
        directory.write_json(f"{name}.json", records)
    directory.write_json("summary.json", summary)


def summarize(plan: Plan, conclusion: Conclusion, journal: Journal, execution: ExecutionResult) -> dict[str, object]:
    """The content of summary.json: scenario, metrics, times and claims, as plain values."""
    scenario, topology = plan.scenario, plan.topology
    return {
        "topology": topology.name,
        "order": topology.order,
        "degree": topology.degree,
        "diameter": topology.known_diameter,
        "collective": str(scenario.collective),
        "algorithm": scenario.algorithm,
        "source": topology.label(plan.spec.source),
        **plan.targets,
        "port_model": str(scenario.port_model),
        "driver": scenario.driver,
        "hosts": plan.hosts,
        "clock": scenario.clock,
        "seed": scenario.seed,
        "messages": scenario.messages,
        "message_bytes": plan.spec.contributed_bytes,
        **plan.vector,
        "segments_per_tree": scenario.segments,
        "redundancy": scenario.redundancy,
        "faults": list(scenario.fault),
        **({"fault_searches": list(plan.searches)} if plan.searches else {}),
        "without_effect": faults_without_effect(plan),
        **conclusion.metrics,
        **conclusion.cut_off.record(),
        **conclusion.stated(),
        "wall_seconds": round(execution.wall_seconds, 6),
        "setup_seconds": round(execution.setup_seconds, 6),
        **({"network_read_seconds": round(topology.read_seconds, 6)} if isinstance(topology, TableTopology) else {}),
        "links_opened": execution.links_opened,
        "journal_rows": journal.rows,
        "journal_hash": journal.hash,
        "verdict": str(conclusion.ruling.verdict),
        "undecided_because": conclusion.ruling.undecided,
        "claims": [judgement.record() for judgement in conclusion.ruling.judgements],
    }

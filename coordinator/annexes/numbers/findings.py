"""Findings about a finished run on real numbers: metrics of its results, and statements on their bits."""

from coordinator.annexes.numbers.bit_claims import bits_of
from coordinator.annexes.numbers.orders import FoldTrees
from coordinator.annexes.numbers.partial_results import partial_result_metrics
from coordinator.annexes.numbers.probed_results import probe_claim, read_probe
from coordinator.annexes.numbers.results import result_metrics
from coordinator.features.base import Evidence, Findings, ResolvedRun
from coordinator.history.result_array import ResultArray
from emunode.model import NumberSource


def findings(
    run: ResolvedRun, evidence: Evidence, results: ResultArray, trees: FoldTrees | None, *, lost: bool
) -> Findings:
    """Return metrics and statements of a run.

    `trees`: the fold trees that the algorithm states. `lost`: faults may have cost results a contribution.
    """
    metrics = result_metrics(run.algorithm, results, complete=not lost)
    metrics |= partial_result_metrics(run, evidence.journal)
    probe = []
    numbers = run.spec.numbers
    if numbers is not None and numbers.source is NumberSource.PROBE and not lost:
        probed = read_probe(run.algorithm, results, trees)
        metrics["probe_contradictions"] = len(probed.contradictions)
        probe.append(probe_claim(run.algorithm, probed))
        if not run.algorithm.traits.states_order and probed.trees.trees:
            trees = probed.trees
    if trees is not None:
        metrics |= {
            "distinct_trees": len(trees.digests),
            "tree_depth": trees.depth,
            "trees_per_element": trees.trees_per_element,
        }
    undisturbed = not run.judged.effective_faults
    return Findings(metrics, bits_of(run.algorithm, results, trees, probe, undisturbed=undisturbed, lost=lost))

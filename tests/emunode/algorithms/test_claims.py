"""A claim names a metric that runs measure, and a relation that judges know."""

import pytest

from coordinator.results.structure import METRICS as STRUCTURE_METRICS
from emunode.algorithms.claims import METRICS, STRUCTURE, Claim
from tests.helpers.support import run_scenario


def test_a_misspelt_metric_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown metric 'stepz': did you mean 'steps'"):
        Claim("stepz", 4, "==", "a paper")


def test_the_known_metrics_are_listed_where_no_name_is_similar() -> None:
    with pytest.raises(ValueError, match=r"known metrics: .*average_receive_step, bytes, "):
        Claim("beauty", 4, "==", "a paper")


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown relation '!='"):
        Claim("steps", 4, "!=", "a paper")  # type: ignore[arg-type]


def test_every_structure_metric_can_be_measured() -> None:
    assert set(STRUCTURE) == set(STRUCTURE_METRICS)


def test_every_metric_of_the_summary_can_be_claimed() -> None:
    result = run_scenario(topology="star:3", collective="broadcast", algorithm="edt", redundancy=2)
    measured = {judgement.claim.name for judgement in result.judgements if judgement.measured is not None}
    assert measured <= METRICS
    assert {"steps", "segments", "intact_deliveries", "virtual_seconds"} <= METRICS & set(result.summary)

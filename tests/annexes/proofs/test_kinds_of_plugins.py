"""Certificates over kinds of faults that no module knows."""

import pytest

from coordinator.annexes.proofs.batch_certifier import BitRowEngine
from coordinator.annexes.proofs.certificate import Certificate
from coordinator.annexes.proofs.certify import CertificateEngine, Certifier, MessageEngine, exhaustive_fault_sets
from coordinator.annexes.proofs.cut_certifier import CutEngine, NotProvableError
from coordinator.results.claims import Verdict
from tests.coordinator.plugins.test_fault_kinds import TREES, plug_ins  # noqa: F401

KNOWN = {"nap": "hang", "wall": "down"}


def certificate_of(engine: type[CertificateEngine], faults: str) -> Certificate:
    """Certify two trees in S_3 with an engine."""
    with open("/dev/null", "w") as log:  # noqa: PTH123
        return Certifier(TREES.scenario, 1, log, lambda *_: None, engine).certify(exhaustive_fault_sets([faults]))


@pytest.mark.parametrize("faults", ["nap<=1", "wall<=1", "wall=2", "nap=1;wall=1"])
def test_three_engines_certify_them_alike(faults: str) -> None:
    known = faults
    for kind, like in KNOWN.items():
        known = known.replace(kind, like)
    made = [certificate_of(engine, faults) for engine in (MessageEngine, BitRowEngine, CutEngine)]
    expected = certificate_of(MessageEngine, known)
    assert {each.verdict for each in made} == {expected.verdict} <= {Verdict.HOLDS, Verdict.VIOLATED}
    for each in made:
        assert [level.survived for level in each.counts] == [level.survived for level in expected.counts]


def test_a_kind_without_effects_is_refused_by_name() -> None:
    with pytest.raises(NotProvableError, match=r"whim does not define effects\(\)"):
        certificate_of(CutEngine, "whim<=1")

"""Agreement on failures: nodes that suspect failures decide on the same set of them, and may run the collective again."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        needs=("invariants",),
        options={"AgreementOptions": "coordinator.annexes.agreement.options"},
        features={"agreement": "coordinator.annexes.agreement.feature:AgreementFeature"},
        calls={
            "agreement on failures": "coordinator.annexes.agreement.settings:agreement_of",
            "claims of an agreement": "coordinator.annexes.agreement.feature:claims_of_outcome",
            "time of an agreement": "coordinator.annexes.agreement.settling:time_of_agreement",
        },
    )

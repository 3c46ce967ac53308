"""Proofs: certificates over every set of faults, and archives that others judge without this program."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        commands={
            "certify": (
                "coordinator.annexes.proofs.certify_command:CertifyCommand",
                "Decide every set of faults up to symmetry, or find a smallest counterexample.",
            ),
            "pack": (
                "coordinator.annexes.proofs.pack_command:pack",
                "Write a run or a certificate into one archive that others can judge.",
            ),
        },
        names={
            "Certificate": "coordinator.annexes.proofs.certificate:Certificate",
            "certify": "coordinator.annexes.proofs.api:certify",
        },
        calls={
            "the check of a certificate": "coordinator.annexes.proofs.verify_certificate:verify_certificate",
            "the archive of a run": "coordinator.annexes.proofs.archive:pack_run",
        },
    )

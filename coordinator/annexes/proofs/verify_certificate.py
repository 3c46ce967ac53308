"""Verification of certificate files, by the judge of archives and without the code that makes certificates.

Everything that the file states is computed again: its scenario is planned, and run without faults, with the
counterexample and with other sets; `checkers/check_certificate.py` judges the certificate by that, as it does for
everybody else.
"""

from pathlib import Path

from coordinator.annexes.proofs.certificate_archive import files_of_certificate
from coordinator.annexes.proofs.checkers.check_certificate import Archive, Judge
from coordinator.annexes.proofs.reading import read_certificate
from coordinator.annexes.proofs.subject import Subject
from coordinator.annexes.proofs.words import statement
from coordinator.execution.verification import MOST_FINDINGS, TooLargeError, UnreadableError, Verification
from coordinator.history.stored.reading import read_bytes
from coordinator.history.stored.version import VersionError
from emunode.errors import EmulatorError


def verify_certificate(path: Path) -> Verification:
    """Check a certificate file; raises only VersionError, for another minor version, whatever it contains."""
    verification = Verification(path)
    try:
        subject = Subject(path, read_certificate(path, verification))
        levels = [(level, subject.fault_set(level)) for level in subject.data["levels"]]
        judge = Judge(Archive(files_of_certificate(subject, read_bytes(path, follow=False))))
        judge.judge()
        verification.findings += judge.wrong[:MOST_FINDINGS]
        verification.unchecked += judge.unjudged + judge.uncounted
        verification.undecided = bool(judge.unjudged)
        if not judge.wrong:
            verification.statement = statement(subject, levels)
    except VersionError:
        raise
    except (TooLargeError, OverflowError) as error:
        verification.unchecked.append(str(error))
        verification.undecided = True
    except (UnreadableError, ValueError) as error:
        verification.findings.append(str(error)[:300])
    except EmulatorError as error:
        verification.findings.append(f"a run fails: {str(error)[:200]}")
    except OSError as error:
        verification.findings.append(f"it cannot be read: {error.strerror}")
    return verification

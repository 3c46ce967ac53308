"""The result of verifying a stored run, campaign, sweep or certificate, and the errors that become findings."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from polars.exceptions import PanicException

from coordinator.history.stored.reading import RefusedError
from coordinator.history.stored.version import VersionError
from emunode.annexes import load
from emunode.errors import EmulatorError, ScenarioError

MOST_FINDINGS = 50
VERIFY: Final = "coordinator.execution.verify:verify"
"""The verification of a run, imported once an error asks for it."""


class UnreadableError(Exception):
    """A file that is missing or malformed."""


class TooLargeError(UnreadableError):
    """A run, or a certificate, whose verification would take too long: nothing is wrong with it, and nothing is checked."""


@dataclass
class Verification:
    """The result of verifying one run."""

    path: Path
    findings: list[str] = field(default_factory=list)
    """Contradictions, one line each; empty for a run that verifies."""
    unchecked: list[str] = field(default_factory=list)
    """Parts that could not be checked, with the reason."""
    statement: str = ""
    """The verified statement in words: of a certificate its claim, of a campaign or a sweep its extent."""
    undecided: bool = False
    """Whether the result stays open, because a part that decides it is among `unchecked`."""

    @property
    def verified(self) -> bool:
        """Whether there are no contradictions."""
        return not self.findings

    @property
    def outcome(self) -> str:
        """The result in words; it names no part but says if parts were not checked."""
        if not self.verified:
            return "does not verify"
        if self.undecided:
            outcome = "undecided"
        else:
            outcome = "verified" if self.statement or not self.unchecked else "verified but for what is not checked"
        return f"{outcome}: {self.statement}" if self.statement else outcome

    def record(self) -> dict[str, object]:
        """Return the verification as JSON values."""
        return {
            "run": str(self.path), "verified": self.verified and not self.undecided, "findings": self.findings,
            "unchecked": self.unchecked, "statement": self.statement,
        }  # fmt: skip

    def warning(self) -> str | None:
        """Return a warning if a run does not verify or is too large, or None.

        For commands that use such a run all the same.
        """
        if self.verified:
            return f"{self.path} is not verified: {self.unchecked[0]}" if self.undecided else None
        more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
        return f"{self.path} does not verify: {self.findings[0]}{more}; see `coordinator verify`"


@contextmanager
def errors_as_findings(verification: Verification, settings: str = "") -> Iterator[None]:
    """Add errors about the content of files within the block to the findings; a check that is too large stays open.

    `settings` is the file that an invalid scenario comes from. Without it, for a plug-in that is not loaded, and for
    another minor version, a ScenarioError is raised.
    """
    try:
        yield
    except TooLargeError as error:
        verification.unchecked.append(str(error))
        verification.undecided = True
    except (UnreadableError, RefusedError) as error:
        verification.findings.append(str(error))
    except ScenarioError as error:
        if error.field == "plugin" or not settings or isinstance(error, VersionError):
            raise
        verification.findings.append(f"{settings}: {error}")
    except OSError as error:
        name = Path(error.filename or verification.path).name
        verification.findings.append(f"{name}: it cannot be read: {error.strerror}")


def links_in(folder: Path) -> list[str]:
    """Return the symbolic links in a folder and its folders; no run, campaign or sweep leaves such links there."""
    inside = [Path(place) / name for place, folders, files in os.walk(folder) for name in (*folders, *files)]
    return sorted(str(path.relative_to(folder)) for path in inside if path.is_symlink())


@contextmanager
def contradictions_named(*runs: Path | None) -> Iterator[None]:
    """Turn an error within the block into a ScenarioError (field `run`) if one of these run directories does not verify.

    Reports and exports rely on tables that fit together. If all runs verify, the error is one of this program, and stays.
    """
    try:
        yield
    except (EmulatorError, OSError):
        raise
    except (Exception, PanicException) as error:
        for run in runs:
            finding = None if run is None else next(iter(load(VERIFY)(run).findings), None)
            if finding is not None:
                raise ScenarioError("run", str(run), f"its files contradict each other: {finding}") from error
        raise

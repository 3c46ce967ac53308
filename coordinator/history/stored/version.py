"""The version of a stored run, campaign, sweep or certificate. A minor version reads only things that it wrote itself.

Formats may change with each minor version, and never between 0.3.0 and 0.3.1. So no reader needs a second form of a file.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from coordinator.history.stored.reading import RefusedError
from emunode import __version__
from emunode.errors import ScenarioError

VERSION_KEY: Final = "version"
"""The key of the version in everything that is stored."""
NAMELESS: Final = "0.2"
"""The last minor version without the key; it also reads what version 0.1 stored."""
FORMER_KEY: Final = "software"
"""The key of the version in campaigns, sweeps and certificates of version 0.2; `version` was the number of a format."""
NUMBER: Final = re.compile(r"(?:(?:0|[1-9][0-9]{0,3})\.){2}(?:0|[1-9][0-9]{0,3})")


class VersionError(ScenarioError):
    """A stored thing was written by another minor version; that version can read it."""


def version_of(values: Mapping[str, Any]) -> str:
    """Return the version that wrote a stored thing, such as 0.3.0; `NAMELESS` if the thing names none.

    Raises RefusedError for a value that no version writes.
    """
    stored = values.get(VERSION_KEY)
    if stored is None or (type(stored) is int and FORMER_KEY in values):
        return NAMELESS
    if not isinstance(stored, str) or not NUMBER.fullmatch(stored):
        shown = repr(stored)
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        raise RefusedError(f"{VERSION_KEY} is {shown}, expected three numbers such as {__version__}")
    return stored


def minor_version(version: str) -> str:
    """Return the first two numbers of a version, such as 0.3."""
    return ".".join(version.split(".")[:2])


def is_readable(version: str) -> bool:
    """Return whether this version reads what `version` stored."""
    return minor_version(version) == minor_version(__version__)


def require_version(values: Mapping[str, Any], field: str, path: Path) -> None:
    """Refuse a stored thing of another minor version.

    Raises a VersionError (for `field`) that names the version that reads the thing, and RefusedError as `version_of`.
    """
    version = version_of(values)
    if not is_readable(version):
        wrote = f"{NAMELESS} or earlier" if version == NAMELESS else version
        reason = f"version {wrote} wrote it; read it with collective-testbench {minor_version(version)}"
        raise VersionError(field, str(path), reason)

"""Supply chain: every locked package has a hash and a known licence, and no known vulnerability."""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator

from reference_pages.markdown import table
from stress_tests.common import ROOT, Budget, Row

LOCK = ROOT / "requirements.lock"
LICENCES = ROOT / "docs" / "maintainers" / "licences.md"
FREE = re.compile(r"MIT|BSD|Apache|PSF|Python Software Foundation|ISC|MPL|Mozilla|Unlicense|0BSD", re.IGNORECASE)
"""Licences that permit distribution together with this project."""
TEXTS = {
    "Permission is hereby granted, free of charge, to any person obtaining a copy": "MIT",
    "Redistribution and use in source and binary forms": "BSD",
    "Apache License": "Apache-2.0",
    "Mozilla Public License": "MPL",
}
"""Phrases that identify a licence if a package contains only its text."""
MISSING = "not installed here"
HEAD = """# Licences of what is locked

Written by `scripts/stress supply_chain`.

"""


def locked() -> dict[str, tuple[str, int]]:
    """Return version and number of hashes of every package in the lock."""
    entries = re.findall(r"^([\w.-]+)(?:\[.*?\])?==([^\s;\\]+)((?:.*\\\n)*.*)", LOCK.read_text(), re.MULTILINE)
    return {name: (version, rest.count("--hash=sha256:")) for name, version, rest in entries}


def licences() -> dict[str, str]:
    """Return the licence of every installed package by its normalized name."""
    options = ("--from=mixed", "--with-system", "--with-license-file", "--no-license-path", "--format=json")
    command = [sys.executable, "-m", "piplicenses", *options]
    packages = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {re.sub(r"[_.]", "-", package["Name"].lower()): licence(**package) for package in packages}


def licence(License: str, LicenseText: str, **_: str) -> str:  # noqa: N803  # the keys of pip-licenses
    """Return the licence in the metadata of a package, or else by the text of its licence.

    A LicenseRef is a name that the package itself gives to its text, so the text counts.
    """
    text = " ".join(LicenseText.split())
    by_text = (name for words, name in TEXTS.items() if words in text)
    return next(by_text, "unknown") if License == "UNKNOWN" or License.startswith("LicenseRef-") else License


def run_section(budget: Budget) -> Iterator[Row]:
    """Check hashes, licences and vulnerabilities."""
    packages, found = locked(), licences()
    unhashed = [name for name, (_, hashes) in packages.items() if not hashes]
    yield Row("a hash for everything in the lock", len(packages), unhashed)
    of_package = {name: found.get(name, MISSING) for name in sorted(packages)}
    wrong = [
        f"{name}: {licence}" for name, licence in of_package.items() if licence != MISSING and not FREE.search(licence)
    ]
    yield Row("licences", len(packages), wrong)
    if not budget.sample:
        rows = ((name, packages[name][0], licence) for name, licence in of_package.items())
        LICENCES.write_text(HEAD + table(("package", "version", "licence"), rows))
    yield advisories()


def advisories() -> Row:
    """Run pip-audit on the lock, if it is installed and reaches its database, for packages of this platform."""
    row = Row("known advisories")
    if importlib.util.find_spec("pip_audit") is None:
        row.note = "left out: pip-audit is not installed (pip install pip-audit)"
        return row
    options = ("--requirement", str(LOCK), "--no-deps", "--disable-pip", "--timeout", "20", "--format", "json")
    done = subprocess.run(
        [sys.executable, "-m", "pip_audit", *options], capture_output=True, text=True, check=False, timeout=600
    )
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        row.note = f"left out: {(done.stderr.strip().splitlines() or ['no answer'])[-1][:100]}"
        return row
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    row.tried = len(packages) - len(unknown)
    row.wrong = [
        f"{package['name']}: {advisory['id']}" for package in packages for advisory in package.get("vulns", ())
    ]
    if unknown:
        row.note = f"no data about {len(unknown)} packages"
    return row

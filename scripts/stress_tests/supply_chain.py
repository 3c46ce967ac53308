"""The supply chain: the lock has a hash for everything, licences are known, no advisory names what is locked."""

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys

from stress_tests.common import ROOT, Budget, Row

LOCK = ROOT / "requirements.lock"
LICENCES = ROOT / "docs" / "maintainers" / "licences.md"
FREE = re.compile(r"MIT|BSD|Apache|PSF|Python Software Foundation|ISC|MPL|Mozilla|Unlicense|0BSD", re.IGNORECASE)
"""Licences under which this project may be passed on together with what it needs."""
WORDS = {
    "Permission is hereby granted, free of charge, to any person obtaining a copy": "MIT",
    "Redistribution and use in source and binary forms": "BSD",
    "Apache License": "Apache-2.0",
    "Mozilla Public License": "MPL",
}
"""By what a licence is known when a package gives its text and no name."""


def locked() -> dict[str, tuple[str, int]]:
    """Version and number of hashes of everything in the lock."""
    found: dict[str, tuple[str, int]] = {}
    name = ""
    for line in LOCK.read_text().splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", line):
            name = match[1]
            found[name] = (match[2], 0)
        if "--hash=sha256:" in line and name:
            version, hashes = found[name]
            found[name] = (version, hashes + line.count("--hash=sha256:"))
    return found


def licence(name: str) -> str:
    """What a package that is installed says of its licence."""
    try:
        said = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed here"
    classified = [one.rpartition(" :: ")[2] for one in said.get_all("Classifier") or () if one.startswith("License")]
    short = "".join((said.get("License") or "").strip().splitlines()[:1])[:60]
    return said.get("License-Expression") or ", ".join(classified) or short or _by_its_words(name)


def _by_its_words(name: str) -> str:
    for file in importlib.metadata.files(name) or ():
        if "LICENSE" in file.name.upper():
            text = " ".join(file.read_text().split())
            return next((licence for words, licence in WORDS.items() if words in text), text[:60])
    return "unknown"


def table(packages: dict[str, tuple[str, int]]) -> str:
    """docs/maintainers/licences.md."""
    rows = [f"| {name} | {version} | {licence(name)} |" for name, (version, _) in sorted(packages.items())]
    head = [
        "# Licences of what is locked",
        "",
        "Written by `scripts/stress supply_chain`.",
        "",
        "| package | version | licence |",
    ]
    return "\n".join([*head, "|---|---|---|", *rows, ""])


def run_section(budget: Budget) -> list[Row]:
    """Hashes, licences, advisories."""
    packages = locked()
    hashes = Row("supply_chain", "a hash for everything in the lock", len(packages))
    hashes.wrong = [name for name, (_, count) in packages.items() if not count]
    free = Row("supply_chain", "licences", len(packages))
    free.wrong = [
        f"{name}: {said}" for name in packages if not FREE.search(said := licence(name)) and "not installed" not in said
    ]
    text = table(packages)
    if not budget.sample:
        LICENCES.write_text(text)
    return [hashes, free, advisories()]


def advisories() -> Row:
    """pip-audit over the lock, where it is installed and reaches its database: what of the lock is for this platform."""
    row = Row("supply_chain", "known advisories")
    if importlib.util.find_spec("pip_audit") is None:
        row.note = "left out: pip-audit is not installed"
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
    row.wrong = [f"{package['name']}: {one['id']}" for package in packages for one in package.get("vulns", ())]
    if unknown:
        row.note = f"of {len(unknown)} the registry here tells nothing"
    return row

"""Prepare the content of the images: pinned requirements of hosts and coordinator, and a wheel of the installed project.

`wheels.py lock LOCK PYTHON_VERSION FOLDER` writes host.lock and coordinator.lock, each pin with its hashes.
`wheels.py project FOLDER` packs the project as it is installed here, for users who have no source tree.
"""

import base64
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution, requires
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

try:
    from packaging.requirements import Requirement
except ImportError:
    from pip._vendor.packaging.requirements import Requirement  # type: ignore[assignment]

PROJECT = "collective-testbench"
HOST_NEEDS = ("msgpack", "numpy", "structlog", "trio")
"""Packages that `emunode` imports."""
NOT_PACKED = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


def canonical(name: str) -> str:
    """The name of a package as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: str, python: str) -> dict[str, str]:
    """The lines of a lock that apply to a version of Python, by package."""
    found = {}
    for block in lock.replace("\\\n", " ").splitlines():
        if not block or block.startswith("#"):
            continue
        head, *hashes = block.split(" --hash=")
        requirement = Requirement(head.strip())
        if applies(requirement, python):
            pin = f"{requirement.name}{requirement.specifier}"
            found[canonical(requirement.name)] = " ".join([pin, *(f"--hash={it.strip()}" for it in hashes)])
    return found


def applies(requirement: Requirement, python: str) -> bool:
    """Whether a requirement without extras applies to a version of Python, such as 3.11."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    return requirement.marker is None or requirement.marker.evaluate(environment)


def closure(names: Iterable[str], python: str) -> set[str]:
    """Packages and all that they require."""
    found, todo = set[str](), [canonical(name) for name in names]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            needed = map(Requirement, requires(name) or ())
            todo += [canonical(it.name) for it in needed if applies(it, python)]
    return found


def write_locks(lock: Path, python: str, folder: Path) -> None:
    """Divide the pins between the host image and what the coordinator needs on top."""
    pinned = pins(lock.read_text(), python)
    host = closure(HOST_NEEDS, python)
    rest = closure([PROJECT], python) - host - {PROJECT}
    for name, wanted in (("host", host), ("coordinator", rest)):
        (folder / f"{name}.lock").write_text("".join(f"{pinned[it]}\n" for it in sorted(wanted)))


def pack(installed: Distribution, folder: Path) -> Path:
    """A wheel of a distribution as it is installed."""
    stem = f"{installed.name.replace('-', '_')}-{installed.version}"
    path = folder / f"{stem}-py3-none-any.whl"
    record = []
    with ZipFile(path, "w", ZIP_DEFLATED) as wheel:
        for name, content in packed_files(installed):
            wheel.writestr(name, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
        name = f"{stem}.dist-info/RECORD"
        wheel.writestr(name, "".join([*record, f"{name},,\n"]))
    return path


def packed_files(installed: Distribution) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file that a wheel brought; the installer creates the scripts."""
    for file in sorted(installed.files or ()):
        if ".." not in file.parts and file.suffix != ".pyc" and file.name not in NOT_PACKED:
            yield str(file), Path(str(installed.locate_file(file))).read_bytes()


if __name__ == "__main__":
    match sys.argv[1:]:
        case "lock", lock_file, python_version, where:
            write_locks(Path(lock_file), python_version, Path(where))
        case "project", where:
            pack(distribution(PROJECT), Path(where))
        case _:
            sys.exit(__doc__)

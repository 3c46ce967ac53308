"""Fuzz one target, or replay the stored corpus of all targets."""

import contextlib
import sys
import traceback
from pathlib import Path

from stress_tests.common import in_fork

INSTRUMENTED = [
    "emunode.net",
    "emunode.host",
    "emunode.faults",
    "emunode.topologies",
    "coordinator.networks",
    "coordinator.scenario",
    "coordinator.planning.plan",
    "coordinator.annexes.schedules",
]
"""Packages whose coverage guides the fuzzer."""
REPLAY = sys.argv[1:2] == ["-replay"]
if not REPLAY:
    import atheris  # type: ignore[import-untyped]

with contextlib.nullcontext() if REPLAY else atheris.instrument_imports(include=INSTRUMENTED):
    from stress_tests.fuzzing.targets import TARGETS


def replay(name: str, folder: Path) -> str:
    """Replay the stored inputs of one target; the error of the first input that fails, or ""."""
    path = folder
    inputs = [(path, path.read_bytes()) for path in sorted(folder.glob("*"))]  # before functions are replaced
    try:
        fuzz = TARGETS[name].make()
        for path, data in inputs:  # noqa: B007  # `path` is reported on failure
            fuzz(data)
    except BaseException:
        return f"{path}\n{traceback.format_exc()}"
    print(f"{name}: {len(inputs)} inputs", flush=True)
    return ""


def main() -> None:
    """Fuzz one target until the options of libFuzzer end it; `-seeds=FOLDER` first writes the initial inputs."""
    name = sys.argv.pop(1)
    if REPLAY:
        failures = [in_fork(replay, name, Path(sys.argv[1], name)) for name in TARGETS]
        sys.exit("\n".join(filter(None, failures)) or 0)
    target = TARGETS[name]
    if sys.argv[1:] and sys.argv[1].startswith("-seeds="):
        folder = Path(sys.argv.pop(1).removeprefix("-seeds="))
        for number, seed in enumerate(target.seeds()):
            (folder / f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, target.make())
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""Fuzz one target, or replay the stored corpus of all targets."""

import contextlib
import os
import sys
import traceback
from pathlib import Path

INSTRUMENTED = [
    "emunode.net.wire",
    "emunode.net.framed_streams",
    "emunode.host.session",
    "emunode.net.protocol",
    "emunode.faults.kinds",
    "emunode.faults.injector",
    "emunode.topologies",
    "coordinator.networks.host_network",
    "coordinator.networks.admission",
    "coordinator.networks.messages",
    "coordinator.networks.control_channel",
    "emunode.net.validation",
    "coordinator.scenario.fault_syntax",
    "coordinator.scenario.fault_draws",
    "coordinator.scenario.fault_sets",
    "coordinator.scenario.model",
    "coordinator.planning.plan",
]
"""Modules whose coverage guides the fuzzer."""
REPLAY = sys.argv[1:2] == ["-replay"]
if not REPLAY:
    import atheris  # type: ignore[import-untyped]

with contextlib.nullcontext() if REPLAY else atheris.instrument_imports(include=INSTRUMENTED):
    from stress_tests.fuzzing.targets import TARGETS


def replay(folder: Path) -> int:
    """Replay every stored input, each target in a fork; 1 if an input fails."""
    status = 0
    for name in TARGETS:
        paths = sorted((folder / name).glob("*"))
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            os._exit(_replay_one(name, paths))
        status |= os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return int(status != 0)


def _replay_one(name: str, paths: list[Path]) -> int:
    path = Path()
    inputs = [(path, path.read_bytes()) for path in paths]  # before the target replaces the functions that read them
    try:
        target = TARGETS[name].make()
        for path, data in inputs:  # noqa: B007  # `path` is reported on failure
            target(data)
    except BaseException:
        sys.stdout.write(f"{name}: {path}\n{traceback.format_exc()}")
        sys.stdout.flush()
        return 1
    sys.stdout.write(f"{name}: {len(paths)} inputs\n")
    sys.stdout.flush()
    return 0


def main() -> None:
    """Fuzz one target until the options of libFuzzer end it; `-seeds=FOLDER` first writes the initial inputs."""
    name = sys.argv.pop(1)
    if REPLAY:
        sys.exit(replay(Path(sys.argv[1])))
    target = TARGETS[name]
    if sys.argv[1:] and sys.argv[1].startswith("-seeds="):
        folder = Path(sys.argv.pop(1).removeprefix("-seeds="))
        for number, seed in enumerate(target.seeds()):
            (folder / f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, target.make())
    atheris.Fuzz()


if __name__ == "__main__":
    main()

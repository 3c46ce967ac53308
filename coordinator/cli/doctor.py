"""`coordinator doctor` and `coordinator clean`."""

from dataclasses import asdict

from coordinator.cli.output import JsonFlag, as_command, print_json
from coordinator.cli.render import print_rows
from coordinator.history.run_directory import remove_abandoned
from coordinator.maintenance import doctor as checks
from coordinator.networks.launchers.records import orphans


def doctor(*, json: JsonFlag = False) -> int:
    """Check what this machine offers: limits, loopback, disk, clock, containers.

    Each finding is good, a limit, or a problem with its remedy. The exit status is 4 if there is a problem.

    Examples:
      coordinator doctor
      coordinator doctor --json
    """
    findings = checks.examine()
    print_rows("doctor", [asdict(finding) for finding in findings], json)
    return 0 if all(finding.state != "problem" for finding in findings) else 4


def clean(*, json: JsonFlag = False) -> None:
    """Remove what killed runs left behind.

    That is unfinished run directories, containers and container networks. Runs in progress are not touched.

    Examples:
      coordinator clean
      coordinator clean --json
    """
    removed = [str(path) for path in remove_abandoned()]
    try:
        for record in orphans():
            # Only here: the Docker client takes 0.2 s to import, and most machines have no containers to remove.
            from coordinator.networks.launchers.docker import sweep  # noqa: PLC0415

            removed += sweep(record)
    finally:  # list the folders that were removed even if the container engine does not answer
        if not json:
            print("\n".join(f"removed {each}" for each in removed) or "nothing to clean")
    if json:
        print_json({"removed": removed})


doctor_command, clean_command = as_command(doctor), as_command(clean)

"""`coordinator doctor`."""

from dataclasses import asdict

from coordinator.cli.output import JsonFlag, as_command
from coordinator.cli.render import print_rows
from coordinator.maintenance import doctor as checks


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


doctor_command = as_command(doctor)

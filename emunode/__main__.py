"""`emunode`: run a host, or (for the local driver) fork many."""

import gc

gc.disable()  # until hosts run: what is imported now stays, and pages that no collection touched are shared after a fork

import argparse
import os
import sys
from pathlib import Path

from emunode import __version__
from emunode.process import fork_hosts, run_host

TOKEN_VARIABLE = "EMUNODE_TOKEN"


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run; exit status 2 for a command line that will not do, else as the host ends."""
    parser = argparse.ArgumentParser(prog="emunode", description="Run a host of the collective test bench.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--coordinator", required=True, metavar="HOST:PORT", help="where the coordinator listens")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"file with the run's token ('-': standard input; default: ${TOKEN_VARIABLE})",
    )
    parser.add_argument("--processes", type=int, metavar="N", help="fork N hosts (the local driver does)")
    options = parser.parse_args(arguments)
    address, _, port = options.coordinator.rpartition(":")
    if not address or not port.isdigit() or not 0 < int(port) < 65536:
        parser.error(f"--coordinator: {options.coordinator!r} will not do; it is HOST:PORT, such as 127.0.0.1:7000")
    if options.processes is not None and options.processes < 1:
        parser.error(f"--processes: {options.processes} will not do; at least 1")
    try:
        token = _token(options.token_file)
    except OSError as error:
        parser.error(f"--token-file: {options.token_file!r} cannot be read: {error.strerror}")
    if not token:
        parser.error(f"a host needs the run's token: --token-file FILE or the variable {TOKEN_VARIABLE}")
    if options.processes is None:
        gc.enable()
        return run_host(address, int(port), token)
    return fork_hosts(address, int(port), token, options.processes)


def _token(file: str | None) -> bytes:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip().encode()
    if file == "-":
        return sys.stdin.readline().strip().encode()
    return Path(file).read_bytes().strip()


if __name__ == "__main__":
    sys.exit(main())

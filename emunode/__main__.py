"""`emunode`: run a host, or (for the local driver) fork many."""

import gc

gc.disable()  # until hosts run: pages that no collection has touched stay shared after a fork

import argparse
import socket
from ipaddress import IPv4Address

from emunode import __version__
from emunode.host.command import run
from emunode.launched import JOIN_FILE, endpoint_of
from emunode.model import ANY_HOST
from emunode.runtime import TOKEN_VARIABLE, exit_at_once

JOIN_SECONDS = 60.0


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run.

    Exit status: 0 if the run that it joined ended normally for it, 2 for an invalid command line, 130 if interrupted,
    4 otherwise: it could not join, links did not come up, a peer failed or the coordinator died.
    """
    parser, options = _parse(arguments)
    return run(parser, options)


def _parse(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        prog="emunode",
        description="Run a host of the collective test bench: join a coordinator and run the nodes that it assigns.",
        epilog="Exit status: 0 if the run that it joined ended normally for it, 2 for an invalid command line, 4 otherwise.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "--coordinator",
        metavar="HOST:PORT",
        help="where the coordinator listens (default: as the join file says)",
    )
    parser.add_argument(
        "--join-file",
        metavar="FILE",
        help=f"file with endpoint and token of the run (default: ${JOIN_FILE}, or the file of the job of Slurm)",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"file with the run's token ('-': standard input; default: ${TOKEN_VARIABLE})",
    )
    parser.add_argument(
        "--join-seconds",
        type=float,
        default=JOIN_SECONDS,
        metavar="S",
        help="how long to wait for the token file, and for the coordinator to listen (default: %(default)g)",
    )
    parser.add_argument(
        "--index", type=int, default=ANY_HOST, metavar="I", help="the index of this host (default: any)"
    )
    parser.add_argument("--processes", type=int, metavar="N", help="start N hosts, at any free indices")
    parser.add_argument(
        "--node", default="", metavar="NAME", help="name of this machine (default: from the launcher, or the system)"
    )
    parser.add_argument("--parent", type=int, metavar="PID", help=argparse.SUPPRESS)  # the coordinator that started it
    parser.add_argument("--network-descriptor", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument("--job-descriptor", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument(
        "--advertise",
        default="",
        metavar="ADDRESS",
        help="address where peers dial this host (default: the one that it reaches the coordinator from)",
    )
    parser.add_argument(
        "--allow-plugins",
        action="store_true",
        help="execute plug-ins and programs that the coordinator sends or names, with the rights of this process",
    )
    options = parser.parse_args(arguments)
    if options.coordinator is not None:
        if options.join_file is not None:
            parser.error("--join-file: it names the coordinator itself; leave out --coordinator")
        try:
            endpoint_of(options.coordinator)
        except ValueError as error:
            parser.error(f"--coordinator: {error}")
    if options.processes is not None and options.processes < 1:
        parser.error(f"--processes: invalid value {options.processes}: expected at least 1")
    if not -1 <= options.index < 2**31:
        parser.error(f"--index: invalid value {options.index}: expected 0 or more, or -1 for any")
    if not 0 <= options.join_seconds <= 86400:
        parser.error(f"--join-seconds: invalid value {options.join_seconds:g}: expected 0 to 86400")
    if options.advertise:
        try:
            options.advertise = _dialled_address(options.advertise)
        except ValueError as error:
            parser.error(f"--advertise: invalid address {options.advertise!r}: {error}")
    return parser, options


def _dialled_address(name: str) -> str:
    """Return the IPv4 address of a name or address; ValueError if peers cannot dial it."""
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        raise ValueError(error.strerror) from None
    if IPv4Address(address).is_unspecified or IPv4Address(address).is_multicast:
        raise ValueError("peers cannot dial it; give an address of this machine, such as 192.0.2.7")
    return address


if __name__ == "__main__":
    exit_at_once(main())

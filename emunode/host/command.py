"""The work of `emunode` once its command line is parsed: read the token and the prepared files, and run hosts."""

import argparse
import errno
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from emunode.errors import FrameError, RunError, ScenarioError
from emunode.host.process import (
    FAILED,
    INTERRUPTED,
    RETRY_SECONDS,
    Invitation,
    die_with_parent,
    forgo_privileges,
    fork_hosts,
    run_host,
)
from emunode.host.session import preload_network, prepare_algorithm
from emunode.launched import (
    JOIN_FILE,
    MOST_JOIN_BYTES,
    JoinFile,
    LauncherPlace,
    endpoint_of,
    join_file_of,
    launcher_place,
    read_join_text,
)
from emunode.logging import log
from emunode.model import ANY_HOST, CollectiveSpec
from emunode.net import wire
from emunode.net.records import decode_record
from emunode.net.validation import items, text
from emunode.runtime import MOST_TOKEN_BYTES, TOKEN_VARIABLE

ASK_SECONDS, ANSWER_SECONDS = 5.0, 2.0
"""How often a process whose hosts were killed asks for the coordinator, and how long an answer may take."""


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Carry out the command line and return the exit status of `emunode`."""
    # First: everything else may execute code of others, such as plug-ins and programs that play ranks.
    forgo_privileges()
    if os.getpid() == 1:  # the kernel delivers only signals with a handler to the first process of a container
        signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    try:
        return _run(parser, options)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Find the run, then start one host or several."""
    if options.parent is not None:
        die_with_parent()
        if os.getppid() != options.parent:  # it died before, so the signal would never come
            return FAILED
    # One deadline for the files and for the coordinator: the user waits for all of them.
    deadline = time.monotonic() + options.join_seconds
    invitation, first, goes_on = _invitation(parser, options, deadline)
    if options.network_descriptor is not None:
        try:
            _read_network(options.network_descriptor)
        except (OSError, FrameError) as error:
            parser.error(f"--network-descriptor: {options.network_descriptor} holds no network: {error}")
    if options.job_descriptor is not None:
        try:
            _compute_tables(options.job_descriptor)
        except (OSError, FrameError) as error:
            parser.error(f"--job-descriptor: {options.job_descriptor} holds no job: {error}")
    processes = options.processes
    if goes_on is not None:
        return fork_hosts(invitation, processes or 1, first, goes_on)
    if processes is not None:
        return fork_hosts(invitation, processes, first)
    return FAILED if run_host(invitation, first) else 0


def _invitation(
    parser: argparse.ArgumentParser, options: argparse.Namespace, deadline: float
) -> tuple[Invitation, int, Callable[[], bool] | None]:
    """Return the run to join, the index of the first host of this process, and for a launched process whether the run
    goes on.
    """

    def invited(endpoint: tuple[str, int], token: bytes, node: str = "") -> Invitation:
        return Invitation(*endpoint, token, deadline, options.advertise, options.allow_plugins, options.node or node)

    if options.coordinator:  # an explicit flag wins over the environment
        endpoint, token = endpoint_of(options.coordinator), _wait_for_token(parser, options, deadline)
        return invited(endpoint, token), options.index, None
    if options.join_file == "-":
        found = _run_from(parser, "-", lambda: read_join_text(sys.stdin.buffer.readline(MOST_JOIN_BYTES)))
        return invited(*found), options.index, _input_is_open
    try:
        place = launcher_place(os.environ)
    except RunError as error:
        parser.error(str(error))
    join_file = _join_file(parser, options, place)
    endpoint, token = _wait_for_run(parser, join_file, deadline)
    first, node = options.index, ""
    if place is not None:
        node = place.node
        first = place.rank * (options.processes or 1) if first == ANY_HOST else first
    return invited(endpoint, token, node), first, _ListedRun(join_file.path, *endpoint).goes_on


def _join_file(parser: argparse.ArgumentParser, options: argparse.Namespace, place: LauncherPlace | None) -> JoinFile:
    """Return the join file that the command line or the environment names."""
    if options.join_file is not None:
        return JoinFile(Path(options.join_file))
    found = join_file_of(os.environ, place.job if place is not None else "")
    if found is None:
        parser.error(
            f"say which run to join: --coordinator HOST:PORT, --join-file FILE or the variable {JOIN_FILE}; a host finds "
            "its run by itself only in a step of Slurm"
        )
    return found


def _wait_for_run(parser: argparse.ArgumentParser, file: JoinFile, deadline: float) -> tuple[tuple[str, int], bytes]:
    """Return the endpoint of the coordinator and the token once the join file exists."""
    while True:
        try:
            return _run_from(parser, str(file.path), file.read)
        except FileNotFoundError:
            if time.monotonic() > deadline:
                log("host cannot join", error=f"timed out waiting for the join file {str(file.path)!r}")
                raise SystemExit(FAILED) from None
        time.sleep(RETRY_SECONDS)


def _run_from(
    parser: argparse.ArgumentParser, name: str, read: Callable[[], tuple[str, bytes]]
) -> tuple[tuple[str, int], bytes]:
    """Return the endpoint of the coordinator and the token that `read` returns; FileNotFoundError passes."""
    try:
        endpoint, token = read()
        return endpoint_of(endpoint), token
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        parser.error(f"--join-file: {name!r} cannot be read: {reason}")


class _ListedRun:
    """A run that goes on as long as its join file is there and its coordinator listens."""

    def __init__(self, join_file: Path, address: str, port: int) -> None:
        self._join_file = join_file
        self._endpoint = address, port
        self._asked = time.monotonic()

    def goes_on(self) -> bool:
        """Return whether the run goes on."""
        if not self._join_file.exists():
            return False
        # The file of a coordinator that was killed stays. Each question is a connection that the coordinator refuses.
        if time.monotonic() < self._asked + ASK_SECONDS:
            return True
        self._asked = time.monotonic()
        with suppress(OSError), socket.create_connection(self._endpoint, ANSWER_SECONDS):
            return True
        return False


def _input_is_open() -> bool:
    """Return whether the standard input is open: the coordinator holds its other end until the run is over."""
    return not select.select([sys.stdin], [], [], 0)[0] or bool(os.read(0, 1))


def _wait_for_token(parser: argparse.ArgumentParser, options: argparse.Namespace, deadline: float) -> bytes:
    """Return the token that the command line or the environment names, once its file exists."""
    try:
        token = _token(options.token_file, deadline)
    except FileNotFoundError:
        log(
            "host cannot join",
            coordinator=options.coordinator,
            error=f"timed out waiting for the token file {options.token_file!r}",
        )
        raise SystemExit(FAILED) from None
    except OSError as error:
        parser.error(f"--token-file: {options.token_file!r} cannot be read: {error.strerror}")
    if not token:
        parser.error(f"a host needs the run's token: --token-file FILE or the variable {TOKEN_VARIABLE}")
    return token


def _read_network(descriptor: int) -> None:
    """Keep the network in an open file for the hosts of this process; OSError, or FrameError if it is malformed."""
    # `pread`, because the processes that inherit the descriptor share its offset.
    preload_network(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    os.close(descriptor)


def _compute_tables(descriptor: int) -> None:
    """Compute the tables of the job in an open file for the hosts of this process; OSError, or FrameError if malformed."""
    job = wire.decode_control(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    _, sha256, record = items(job, 3)
    os.close(descriptor)
    # A host that cannot do the job reports that itself.
    with suppress(ScenarioError):
        prepare_algorithm(decode_record(CollectiveSpec, record), text(sha256))


def _token(file: str | None, deadline: float) -> bytes:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip().encode()
    if file == "-":
        return sys.stdin.readline().strip().encode()
    while True:
        try:
            with Path(file).open("rb") as content:
                # One byte more than allowed shows that a file is too large without reading all of it.
                token = content.read(MOST_TOKEN_BYTES + 1)
            if len(token) > MOST_TOKEN_BYTES:
                raise OSError(errno.EFBIG, f"it has more than {MOST_TOKEN_BYTES} bytes", file)
            return token.strip()
        except FileNotFoundError:
            if time.monotonic() > deadline:
                raise
        # The coordinator writes the file when it starts, maybe after this host.
        time.sleep(RETRY_SECONDS)

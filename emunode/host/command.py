"""The work of `emunode` once its command line is parsed: read the token and the prepared files, and run hosts."""

import argparse
import errno
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from emunode.errors import FrameError, ScenarioError
from emunode.host.process import (
    FAILED,
    INTERRUPTED,
    RETRY_SECONDS,
    die_with_parent,
    forgo_privileges,
    fork_hosts,
    run_host,
)
from emunode.host.session import preload_network, prepare_algorithm
from emunode.logging import log
from emunode.model import CollectiveSpec
from emunode.net import wire
from emunode.net.records import decode_record
from emunode.net.validation import items, text
from emunode.runtime import MOST_TOKEN_BYTES, TOKEN_VARIABLE


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
    """Wait for the token, then run one host or several."""
    if options.parent is not None:
        die_with_parent()
        if os.getppid() != options.parent:  # it died before, so the signal would never come
            return FAILED
    # One deadline for the token file and for the coordinator: the user waits for both.
    deadline = time.monotonic() + options.join_seconds
    try:
        token = _token(options.token_file, deadline)
    except FileNotFoundError:
        log(
            "host cannot join",
            coordinator=options.coordinator,
            error=f"timed out waiting for the token file {options.token_file!r}",
        )
        return FAILED
    except OSError as error:
        parser.error(f"--token-file: {options.token_file!r} cannot be read: {error.strerror}")
    if not token:
        parser.error(f"a host needs the run's token: --token-file FILE or the variable {TOKEN_VARIABLE}")
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
    where = options.address, options.port, token
    how = options.index, deadline - time.monotonic(), options.advertise, options.allow_plugins
    if options.processes is None:
        return FAILED if run_host(*where, *how) else 0
    return fork_hosts(*where, options.processes, *how)


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
        # The coordinator writes the file when it starts, which may be after this host.
        time.sleep(RETRY_SECONDS)

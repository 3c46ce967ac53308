"""The process between the judge and mpirun, and between mpirun and a program of the user.

`python -m coordinator.annexes.mpi.enter own|shared PARENT COMMAND ..` becomes the command, in a network namespace of its own
if that is asked for. It dies with its parent, and so does mpirun, since it becomes mpirun.
"""

import os
import signal
import sys

from coordinator.planning.namespace import enter_own_network
from emunode import runtime as libc
from emunode.errors import EmulatorError
from emunode.terminal import say

NOT_STARTED = 125
"""Exit status if the command could not be started, as that of `timeout` and `env`."""


def main(arguments: list[str]) -> int:
    """Enter the network, request the death signal, and become the command; returns only if that fails."""
    network, parent, *command = arguments
    try:
        if network == "own":
            enter_own_network()
        # After the namespace: the kernel forgets the request when the rights of a process change.
        libc.require("prctl", libc.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have died before the request, and then the signal would never come.
        if int(parent) not in (0, os.getppid()):
            return NOT_STARTED
        os.execvp(command[0], command)
    except (EmulatorError, OSError) as error:
        say(f"{command[0]}: {error}", err=True)
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

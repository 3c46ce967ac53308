"""The signals that ask a program to end: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal or a lost connection."""

import signal
from typing import Final

STOP_SIGNALS: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    # A program that nohup has started goes on.
    *((signal.SIGHUP,) if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else ()),
)

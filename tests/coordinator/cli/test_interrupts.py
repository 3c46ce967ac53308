"""SIGINT at moments when an exception would do damage, in processes of their own: a library loads parts only once."""

import subprocess
import sys

INTERRUPT = """
import signal, sys, threading, time
def interrupt_at_call(number):
    calls = 0
    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls == number:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)
    sys.setprofile(count)
def report(work):
    try:
        work()
        sys.setprofile(None)
        time.sleep(1)  # an interrupt that was held back comes a moment later
        print("no interrupt")
    except KeyboardInterrupt:
        print("interrupted")
    except BaseException as error:
        print(type(error).__name__)
"""
POLARS = """
import os
from coordinator.cli.invoke import Interrupts
import numpy, polars as pl
interrupts = Interrupts()
interrupts.install()
for number in {numbers}:
    if not os.fork():
        series = pl.Series([1, 2, 3])
        interrupt_at_call(number)
        report(series.to_numpy)
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""
JOURNAL = """
import coordinator.history.journal
import polars as pl
series = pl.Series([1, 2, 3])
interrupt_at_call({number})
report(series.to_numpy)
"""
HELD = """
from emunode.runtime import hold_interrupts
def work():
    with hold_interrupts():
        signal.raise_signal(signal.SIGINT)
        print("still there")
report(work)
"""


def printed(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT + code], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def test_an_interrupt_waits_until_polars_has_returned() -> None:
    """Polars first calls Python from Rust at call 4 or so, and an exception there is a panic."""
    numbers = [2, 6, 12, 40, 300]
    assert printed(POLARS.format(numbers=numbers)) == "interrupted\n" * len(numbers)


def test_polars_knows_numpy_before_the_first_table() -> None:
    """Without the handlers of the command line, as in a notebook: nothing is left to interrupt at the sixth call."""
    assert printed(JOURNAL.format(number=6)) == "no interrupt\n"


def test_a_held_interrupt_is_raised_at_the_end_of_the_block() -> None:
    assert printed(HELD) == "still there\ninterrupted\n"
